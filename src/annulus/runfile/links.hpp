// Where a path leads.
#pragma once

#include <string>

namespace annulus::runfile {

/// The file that `file` stands for: links are followed to their end, whether something is there or not, and its folder
/// is written without links. Throws Error(failure) when they go round in a circle.
std::string follow_links(const std::string& file);

}  // namespace annulus::runfile
