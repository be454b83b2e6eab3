#include "annulus/app/job/memory_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "annulus/comm/runtime.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/runfile/numbers.hpp"

namespace annulus::app {
namespace {

using core::Index;

/// A whole number of an environment variable above 0; 0 where there is none.
Index variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : runfile::parse_whole(text, {}).number.value_or(0);
}

/// Ranks that name the same bound of the same node; all ranks' words are in `words`, one line for each bound.
Index sharers(const std::string& word, const std::vector<std::string>& words) {
  return std::count_if(words.begin(), words.end(),
                       [&](const std::string& lines) { return lines.find("\n" + word + "\n") != std::string::npos; });
}

}  // namespace

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
  const auto word = [&](const core::MemoryBound& bound) { return host + "\t" + bound.shared_as; };
  std::string own = "\n";
  for (const core::MemoryBound& bound : bounds) own += word(bound) + "\n";
  const std::vector<std::string> words = comm.gather_all(own);

  MemoryShare share;
  bool known = false;
  for (const core::MemoryBound& bound : bounds) {
    const Index ranks = bound.shared_as.empty() ? 1 : sharers(word(bound), words);
    double bytes = double(bound.free) / double(ranks);
    // Slurm's number is all that the ranks may have; of the other bounds what they have is taken off already.
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

}  // namespace annulus::app
