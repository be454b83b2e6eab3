#include "annulus/app/job/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/window_room.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/runfile/machine_file.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {
namespace {

using core::Index;
using core::InstructionSet;

/// The positive whole number in an environment variable; 0 if the variable is not set, or has no such number.
Index variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : runfile::parse_whole(text, {}).number.value_or(0);
}

}  // namespace

core::Machine machine_of(const std::optional<std::string>& file, bool on_these_ranks, const comm::Communicator& comm) {
  core::Machine machine = file ? runfile::read_machine_file(*file, comm) : core::default_machine();
  if (!on_these_ranks) return machine;
  const core::Index own = comm.ranks_of_node();
  if (!file) {
    machine.ranks_per_node = comm.max(own);
    machine.take_own_products();
    for (double* factor : {&machine.bfloat16_factor, &machine.three_bfloat16_factor, &machine.six_bfloat16_factor})
      *factor = comm.max(*factor);  // so that every rank plans the same
  }
  // The smallest share of any rank counts, so that every rank plans the same. A machine file may describe another
  // machine, or be older than the batch system's limits, but no rank may plan with more memory than it has.
  const MemoryShare memory = memory_share(comm);
  if (memory.bytes > 0 && (!file || memory.bytes < machine.memory_per_rank)) {
    machine.memory_per_rank = memory.bytes;
    machine.memory_source = memory.source;
  }
  const comm::WindowRoom room = comm::window_room();
  const double share = room.bytes < 0 ? HUGE_VAL : double(room.bytes) / double(own) / 1.05;  // Open MPI needs 5 % more
  machine.window_per_rank = -comm.max(-share);
  machine.window_source =
      fmt::format("{} ({:.1f} MiB per rank free)", room.folder, machine.window_per_rank / (1024 * 1024));
  return machine;
}

std::vector<core::MemoryBound> batch_bounds(Index resident) {
  constexpr Index mib = 1024 * 1024;
  std::vector<core::MemoryBound> bounds;
  if (const Index node = variable("SLURM_MEM_PER_NODE")) {
    bounds.push_back({"Slurm's --mem", node * mib, "SLURM_MEM_PER_NODE"});
  } else if (const Index cpu = variable("SLURM_MEM_PER_CPU")) {
    const Index cpus = std::max<Index>(1, variable("SLURM_CPUS_PER_TASK"));
    bounds.push_back({"Slurm's --mem-per-cpu", std::max<Index>(0, cpu * cpus * mib - resident), ""});
  }
  return bounds;
}

Index plannable_gpu_memory(Index free) {
  constexpr Index most_left = 512 * 1024 * 1024;
  return free - std::min(free / 16, most_left);
}

MemoryShare memory_share(const comm::Communicator& comm) {
  const Index resident = core::resident_bytes();
  std::vector<core::MemoryBound> bounds = core::memory_bounds();
  for (core::MemoryBound& bound : batch_bounds(resident)) bounds.push_back(std::move(bound));
  if (const auto free = core::free_gpu_memory())
    bounds.push_back({"free memory of the GPU", plannable_gpu_memory(*free), core::gpu_address()});
  const std::string host = comm::host_name();
  const auto key = [&](const core::MemoryBound& bound) { return host + "\t" + bound.shared_as; };
  std::string own = "\n";
  for (const core::MemoryBound& bound : bounds) own += key(bound) + "\n";
  const std::vector<std::string> keys = comm.gather_all(own);  // a text for each rank, one line for each bound

  MemoryShare share;
  bool known = false;
  for (const core::MemoryBound& bound : bounds) {
    const auto shares = [line = "\n" + key(bound) + "\n"](const std::string& lines) {
      return lines.find(line) != std::string::npos;
    };
    const Index ranks = bound.shared_as.empty() ? 1 : std::count_if(keys.begin(), keys.end(), shares);
    double bytes = double(bound.free) / double(ranks);
    // Slurm's --mem includes what ranks already use, so we subtract what this rank uses. Other bounds say what is free.
    if (bound.shared_as == "SLURM_MEM_PER_NODE") bytes -= double(resident);
    if (known && bytes >= share.bytes) continue;
    known = true;
    const std::string who = ranks > 1 ? fmt::format("shared by {} ranks of {}", ranks, host) : "of " + host;
    share = {std::max(1.0, bytes), fmt::format("{}, {}", bound.name, who)};
  }
  const std::vector<double> all = comm.gather_all(known ? share.bytes : HUGE_VAL);
  const std::vector<std::string> sources = comm.gather_all(share.source);
  const auto poorest = std::size_t(std::min_element(all.begin(), all.end()) - all.begin());
  if (all[poorest] == HUGE_VAL) return {};
  return {all[poorest], sources[poorest]};
}

std::string agree_on_instruction_set(const comm::Communicator& comm) {
  Index best = 0;
  comm::agree(comm, [&] { best = Index(core::best_instruction_set()); });
  const std::vector<Index> sets = comm.gather_all(best);
  const auto least = std::min_element(sets.begin(), sets.end()), most = std::max_element(sets.begin(), sets.end());
  core::limit_instruction_set(InstructionSet(*least));
  if (*least == *most) return "";
  return fmt::format("rank {} has no {}", least - sets.begin(), core::name_of(InstructionSet(*most)));
}

std::string other_kinds(const std::vector<std::string>& kinds) {
  const auto first = std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return !kind.empty(); });
  const auto other =
      std::find_if(first, kinds.end(), [&](const auto& kind) { return !kind.empty() && kind != *first; });
  if (other == kinds.end()) return "";
  return fmt::format("rank {} has {}, rank {} {}", first - kinds.begin(), *first, other - kinds.begin(), *other);
}

}  // namespace annulus::app
