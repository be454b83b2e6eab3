// Makes texts and lines for reports, and writes reports as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/memory.hpp"
#include "annulus/store/files/atomic_file.hpp"

namespace annulus::report {

using core::describe_bytes;

/// Joins `words` and leaves out repetitions: "node1, node2" for node1, node1, node2.
std::string distinct(const std::vector<std::string>& words);

/// Prints a line of a summary on stdout: "  name       text". `width`: characters of the column of names.
void print_line(std::string_view name, std::string_view text, int width = 10);

/// A JSON value whose names keep the order in which they were added.
using Json = nlohmann::ordered_json;
/// Writes a JSON object to the file, and gives the file its final name. NaN and infinity become null. Throws
/// Error(failure).
void write_report(store::AtomicFile& file, const Json& report);

}  // namespace annulus::report
