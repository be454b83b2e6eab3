// Prints text for the user on stdout, and messages on stderr.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace annulus::core {

/// errno of the first text that could not be written on stdout; 0 if all was written. main() checks this number at the
/// end.
inline int first_print_error = 0;

inline void note_print_error(bool failed) {
  if (failed && first_print_error == 0) first_print_error = errno;
}

/// Returns a count and its noun: "1 rank", "4 ranks"; "1 batch entry", "2 batch entries".
inline std::string how_many(std::integral auto count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  return noun.ends_with('y') ? fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1))
                             : fmt::format("{} {}s", count, noun);
}

/// Formats text and prints it on stdout. Text is lost if stdout cannot be written (a full disk, a reader that has gone
/// away). In such a case fmt::print() would throw, and so end a run of hours only because its text is not read.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  note_print_error(std::fwrite(text.data(), 1, text.size(), stdout) != text.size());
}
inline void flush_stdout() { note_print_error(std::fflush(stdout) != 0); }

/// Formats a message and prints it on stderr. As with print(), the message is lost if stderr cannot be written.
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

}  // namespace annulus::core
