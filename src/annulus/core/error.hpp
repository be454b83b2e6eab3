// Throws errors that a user sees. Every message says what was found, where, and what was expected.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <string>

#include "annulus/core/exception.hpp"

namespace annulus::core {

/// Throws Error(kind, formatted message). Example: fail(ErrorKind::failure, "{}: no dataset {}", file, name);
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Checks a condition that is false only if the program has a bug; no mistake of the user can make it false. The error
/// names the line in the source. `message` is a function, so that no text is formatted while the condition holds.
template <class Message>
void require(bool holds, Message&& message, std::source_location where = std::source_location::current()) {
  if (!holds) {
    fail(ErrorKind::failure, "internal error at {}:{}: {}", where.file_name(), where.line(), message());
  }
}

}  // namespace annulus::core
