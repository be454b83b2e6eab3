// Which machine a plan is made for.
#pragma once

#include <optional>
#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"

namespace annulus::app {

/// The machine of this file, or the built-in default. A run of the ranks that are there (`here`) gets the ranks of its
/// nodes put in, where there is no file, and never has more memory, and room for windows, than its nodes leave it.
/// Collective; the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool here, const comm::Communicator& comm);

}  // namespace annulus::app
