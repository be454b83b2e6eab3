// Who made a file, when, with which program and on which machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Attributes of /provenance; collective.
std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm);
/// Attributes of the file itself, the same wherever and whenever it is made; `title` says what is in it.
std::vector<std::pair<std::string, std::string>> identity(const std::string& title);

/// "Intel(R) Xeon(R) Platinum 8480+", as the kernel of this machine tells it; what kind of machine it is where it does
/// not.
std::string cpu_name();

/// The batch system's job number, or nothing.
std::string job_id();

}  // namespace annulus::app
