// The machine file: what `plan --calibrate` measures and the cost model goes by. YAML, every key must be given, errors
// start with `FILE:LINE:COLUMN: ` as those of a run file.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"

namespace annulus::runfile {

/// Reads the file on rank 0; collective. Throws the same Error(usage) on every rank.
core::Machine read_machine_file(const std::string& path, const comm::Communicator& comm);

/// Parses `text`, the content of the machine file `path`.
core::Machine parse_machine_file(const std::string& text, const std::string& path);

/// The machine as such a file, each key with its unit; `provenance` becomes comment lines on top.
std::string machine_file_text(const core::Machine& machine, const std::vector<std::string>& provenance);

}  // namespace annulus::runfile
