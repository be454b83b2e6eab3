#include "annulus/app/verbs/info.hpp"

#include <fmt/format.h>
#include <sched.h>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/memory_share.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/window_room.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/layer/weights.hpp"
#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"
#include "annulus/strategies/strategy.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

void line(std::string_view name, std::string_view text) { fmt::print("  {:<18} {}\n", name, text); }

/// CPUs this process may run on, as ranges: "0-3,8".
std::string bound_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "unknown";
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    if (!text.empty()) text += ",";
    text += last > cpu ? fmt::format("{}-{}", cpu, last) : std::to_string(cpu);
    cpu = last;
  }
  return text;
}

}  // namespace

void print_list() {
  fmt::print("strategies (distribution.strategy)\n");
  for (const auto& strategy : strategies::registry()) {
    const std::string reason = strategy->unavailable();
    line(strategy->name(), reason.empty() ? strategy->description() : fmt::format("not with this MPI: {}", reason));
  }
  line("auto", "single below distribution.local_below rows or on one rank, else the cheapest that fits (see plan)");
  fmt::print("reproducible (compute.reproducible)\n");
  line("true", fmt::format("{}", fmt::join(strategies::reproducible_strategies(false), ", ")));
  line("gradients", fmt::format("{}", fmt::join(strategies::reproducible_strategies(true), ", ")));
  fmt::print("semantics (attention.semantics)\n");
  for (const auto& entry : pattern::semantics_table) line(entry.name, entry.description);
  fmt::print("shardings of a layer's weights (layer.sharding)\n");
  for (const auto& entry : layer::sharding_table) line(entry.name, entry.description);
  fmt::print("partitions (distribution.partition)\n");
  for (const auto& entry : pattern::partition_table) line(entry.name, entry.description);
  line("auto",
       "contiguous, or zigzag where that takes more than 5 % off the busiest rank's work, which cutting many short "
       "documents does not; strategy auto decides both");
}

void print_info(const comm::Communicator& comm) {
  comm::choose_transfers(comm::GpuAware::automatic, comm, try_device_self_send);
  const std::string place = fmt::format("{}, CPUs {}, {}", comm::host_name(), bound_cpus(), core::device_name());
  const std::vector<std::string> places = comm.gather_all(place);
  const MemoryShare memory = memory_share(comm);
  const comm::WindowRoom windows = comm::window_room();
  if (!comm.is_root()) return;
  fmt::print("annulus {} ({})\n", annulus::version, annulus::git_commit);
  line("kokkos", fmt::format("{} ({})", core::kokkos_version(), core::kokkos_backends()));
  line("mpi", comm::mpi_library());
  line("tiles", kernels::default_backend() == kernels::Backend::host
                    ? fmt::format("host, {} instructions", kernels::host_instruction_set())
                    : "device");
  line("transfers", comm::transfers());
  if (memory.bytes > 0) line("memory", fmt::format("{} a rank ({})", describe_bytes(memory.bytes), memory.source));
  if (windows.bytes >= 0)
    line("windows", fmt::format("{} free in {}", describe_bytes(double(windows.bytes)), windows.folder));
  for (std::size_t rank = 0; rank < places.size(); ++rank) line(fmt::format("rank {}", rank), places[rank]);
}

}  // namespace annulus::app
