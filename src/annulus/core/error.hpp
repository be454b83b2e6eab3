// Errors a user sees. Every message says what was found, where, and what was expected.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>

namespace annulus::core {

/// What went wrong, as the program's exit status (docs/run-file.md, "Exit status").
enum class ErrorKind {
  failure = 1,       ///< failed while running: a missing or bad file, a full disk, not enough memory
  usage = 2,         ///< bad command line or run file
  verification = 3,  ///< a result outside the tolerance
  stalled = 4,       ///< a peer made no progress
};

/// The one exception type of the project: `kind` becomes the exit status, what() the message.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws Error(kind, formatted message). Example: fail(ErrorKind::failure, "{}: no dataset {}", file, name);
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// A broken promise inside the program (not a user's mistake): throws with its line in the source. The message is a
/// callable, so that nothing is formatted while the promise holds.
template <class Message>
void require(bool holds, Message&& message, std::source_location where = std::source_location::current()) {
  if (!holds) {
    fail(ErrorKind::failure, "internal error at {}:{}: {}", where.file_name(), where.line(), message());
  }
}

}  // namespace annulus::core
