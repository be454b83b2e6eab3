// `annulus plan --calibrate`: this machine's numbers, measured with the ranks that were launched.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Measures kernel rates, links, overlap and copies in some seconds and writes the machine file; an existing file is
/// replaced. Collective; returns 0. Throws core::Error.
int calibrate(const std::string& path, const comm::Communicator& comm);

}  // namespace annulus::app
