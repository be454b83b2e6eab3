// Messages for the user on stderr.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace annulus::core {

/// Formats a message and prints it on stderr. The message is lost if stderr cannot be written (a full disk, a reader
/// that has gone away). fmt::print() would throw then, and end a run only because its messages are not read.
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

}  // namespace annulus::core
