// `annulus info`: prints versions, back ends, MPI, transfers and memory, one line each; then, for every rank, its host,
// the CPUs to which it is bound, and its GPU or its number of threads.
#include <fmt/format.h>
#include <sched.h>

#include "annulus/app/job/machine.hpp"
#include "annulus/app/launch.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/single_copy.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/comm/window_room.hpp"
#include "annulus/core/amx.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/report/text.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

void line(std::string_view name, std::string_view text) { report::print_line(name, text, 18); }

/// Returns the CPUs on which this process may run, as ranges: "0-3,8".
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

/// Says why this process does not use the matrix units (AMX) of its processor, or why vectors do the work for which
/// ANNULUS_INSTRUCTION_SET asks for amx; otherwise empty.
std::string note_of_matrix_units() {
  if (core::has_amx()) return "";
  const core::InstructionSet used = core::best_instruction_set(), amx = core::InstructionSet::amx;
  if (used == amx) return fmt::format("by vectors, slow: {}", core::why_no_amx());
  const bool is_missed = core::processor_has_amx() && used == core::vectors_beside(amx);
  return is_missed ? fmt::format("no amx: {}", core::why_no_amx()) : "";
}

/// Collective.
void print_info(const comm::Communicator& comm) {
  const std::string instruction_set_note = agree_on_instruction_set(comm);
  comm::choose_transfers(comm::GpuAware::automatic, comm, try_device_self_send);
  const std::string location = fmt::format("{}, CPUs {}, {}", comm::host_name(), bound_cpus(), core::device_name());
  const std::vector<std::string> locations = comm.gather_all(location);
  const MemoryShare memory = memory_share(comm);
  const comm::WindowRoom windows = comm::window_room();
  if (!comm.is_root()) return;
  core::print("annulus {} ({})\n", annulus::version, annulus::git_commit);
  line("kokkos", fmt::format("{} ({})", core::kokkos_version(), core::kokkos_backends()));
  line("mpi", comm::mpi_library());
  const std::string pmi = slurm_pmi(comm::mpi_library());
  line("slurm", pmi.empty() ? "srun, with this site's default for --mpi" : "srun --mpi=" + pmi);
  const std::string note = !instruction_set_note.empty() ? instruction_set_note : note_of_matrix_units();
  line("tiles", kernels::default_backend() == kernels::Backend::host
                    ? fmt::format("host, {} instructions{}", kernels::host_instruction_set(),
                                  note.empty() ? "" : " (" + note + ")")
                    : "device");
  line("transfers", comm::transfers());
  const std::string forbidden = comm::why_no_single_copy();
  line("single copy", forbidden.empty()
                          ? "allowed for messages inside a node"
                          : fmt::format("none: process_vm_readv: {} (containers: allow SYS_PTRACE)", forbidden));
  if (kernels::default_backend() == kernels::Backend::device) {
    const std::string trouble = comm::why_no_nccl();
    line("nccl", trouble.empty() ? comm::nccl_library().version : "none: " + trouble);
    for (const kernels::LibraryBackend& one : kernels::library_backends())
      line(std::string(core::name_of(one.backend)), one.version());
  }
  if (memory.bytes > 0)
    line("memory", fmt::format("{} a rank ({})", report::describe_bytes(memory.bytes), memory.source));
  if (windows.bytes >= 0)
    line("windows", fmt::format("{} free in {}", report::describe_bytes(double(windows.bytes)), windows.folder));
  for (std::size_t rank = 0; rank < locations.size(); ++rank) line(fmt::format("rank {}", rank), locations[rank]);
}

}  // namespace

Verb info_verb() {
  return {.name = "info",
          .does = "Versions, back ends, devices, MPI, threads and binding",
          .example = "mpirun -n 2 annulus info",
          .options = {},
          .run =
              [](const comm::Communicator& comm, const std::string&) {
                print_info(comm);
                return 0;
              },
          .ranks_matter = RanksMatter::for_show};
}

}  // namespace annulus::app
