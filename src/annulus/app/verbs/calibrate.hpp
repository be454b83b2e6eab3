// `annulus plan --calibrate`: this machine's numbers, measured with the ranks that were launched.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Measures kernel rates, links, overlap and copies in some seconds and writes the machine file, in place of an
/// existing one only with `overwrite`. Collective; returns 0. Throws core::Error.
int calibrate(const std::string& path, bool overwrite, const comm::Communicator& comm);

}  // namespace annulus::app
