// Words and lines of reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace annulus::report {

/// "1.5 GiB".
std::string describe_bytes(double bytes);

/// The ranks' words, each once, in order of appearance: "node1, node2".
std::string distinct(const std::vector<std::string>& words);

/// A line of a summary on stdout: "  name       text".
void print_line(std::string_view name, std::string_view text, int width = 10);

}  // namespace annulus::report
