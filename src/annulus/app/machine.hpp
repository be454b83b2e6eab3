// Which machine a plan is made for.
#pragma once

#include <optional>
#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"

namespace annulus::app {

/// The machine of this file; without a file the built-in default, where a run of the ranks that are there (`here`) gets
/// the ranks and the free memory of its nodes put in. Collective; the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool here, const comm::Communicator& comm);

/// Ranks of this rank's node.
core::Index ranks_of_node(const comm::Communicator& comm);

}  // namespace annulus::app
