// Which machine a plan is made for.
#pragma once

#include <optional>
#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"

namespace annulus::app {

/// The machine that `file` describes, or the built-in default. `here`: the ranks of `comm` will run the plan, so memory
/// and room for windows are at most what is free on their nodes; without a file, ranks_per_node comes from them, too.
/// Collective; the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool here, const comm::Communicator& comm);

}  // namespace annulus::app
