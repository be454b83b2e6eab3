#include "annulus/app/machine.hpp"

#include <algorithm>

#include "annulus/comm/runtime.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/machine_file.hpp"

namespace annulus::app {

core::Index ranks_of_node(const comm::Communicator& comm) {
  const std::string name = comm::host_name();
  const std::vector<std::string> names = comm.gather_all(name);
  return std::count(names.begin(), names.end(), name);
}

core::Machine machine_of(const std::optional<std::string>& file, bool here, const comm::Communicator& comm) {
  if (file) return io::read_machine_file(*file, comm);
  core::Machine machine = core::default_machine();
  if (!here) return machine;
  const core::Index own = ranks_of_node(comm);
  machine.ranks_per_node = comm.max(own);
  // The poorest rank's share; every rank must come to the same decision.
  const core::Index free = core::available_bytes();
  if (const double poorest = -comm.max(-double(free) / double(own)); poorest > 0) machine.memory_per_rank = poorest;
  return machine;
}

}  // namespace annulus::app
