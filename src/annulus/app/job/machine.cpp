#include "annulus/app/job/machine.hpp"

#include <algorithm>
#include <cmath>

#include "annulus/app/job/memory_share.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/window_room.hpp"
#include "annulus/runfile/machine_file.hpp"

namespace annulus::app {

core::Machine machine_of(const std::optional<std::string>& file, bool here, const comm::Communicator& comm) {
  core::Machine machine = file ? runfile::read_machine_file(*file, comm) : core::default_machine();
  if (!here) return machine;
  const core::Index own = comm.ranks_of_node();
  if (!file) machine.ranks_per_node = comm.max(own);
  // The poorest rank's shares; every rank must come to the same decision. A file may be another machine's, or made
  // before a batch system set limits: no rank gets more than there is.
  const MemoryShare memory = memory_share(comm);
  if (memory.bytes > 0 && (!file || memory.bytes < machine.memory_per_rank)) {
    machine.memory_per_rank = memory.bytes;
    machine.memory_source = memory.source;
  }
  const comm::WindowRoom room = comm::window_room();
  const double share = room.bytes < 0 ? HUGE_VAL : double(room.bytes) / double(own) / 1.05;  // see window_lack()
  machine.window_per_rank = -comm.max(-share);
  machine.window_source =
      fmt::format("{} ({:.1f} MiB per rank free)", room.folder, machine.window_per_rank / (1024 * 1024));
  return machine;
}

}  // namespace annulus::app
