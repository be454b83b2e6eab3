// `annulus plan --calibrate`: measures this machine with the ranks that were launched.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Measures kernel rates, links, overlap and copies, which takes some seconds, and writes the machine file. It replaces
/// an existing file only with `overwrite`. Collective; returns 0. Throws core::Error.
int calibrate(const std::string& path, bool overwrite, const comm::Communicator& comm);

}  // namespace annulus::app
