// The machine file: `plan --calibrate` writes it, and the cost model uses it. It is YAML. Every key is required, except
// a few that files of older versions lack. Errors start with `FILE:LINE:COLUMN: `, as for a run file.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"

namespace annulus::runfile {

/// Reads the file on rank 0. Collective. Throws the same Error(usage) on every rank.
core::Machine read_machine_file(const std::string& path, const comm::Communicator& comm);

/// Parses `text`, the content of the machine file `path`. Throws Error(usage).
core::Machine parse_machine_file(const std::string& text, const std::string& path);

/// The text of a machine file, with a comment that explains each key. `provenance` becomes comment lines at the top.
std::string machine_file_text(const core::Machine& machine, const std::vector<std::string>& provenance);

}  // namespace annulus::runfile
