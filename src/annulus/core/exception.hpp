// The exception type of the project. comm::AgreedError is derived from it.
#pragma once

#include <stdexcept>
#include <string>

namespace annulus::core {

/// The kind of an error. Its number is the program's exit status (docs/output.md, "Exit status").
enum class ErrorKind {
  failure = 1,       ///< failed while running: a missing or bad file, a full disk, not enough memory
  usage = 2,         ///< bad command line, run file or argument
  verification = 3,  ///< a result outside the tolerance
  stalled = 4,       ///< no rank made progress, or a call did not return
};

/// An error that the program reports by printing what() and ending with exit status kind().
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace annulus::core
