// Words that were nearly right, and numbers as users write them, in a run file and on the command line: decimal,
// nothing round them, within their range.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::runfile {

/// A number, or nothing where the text is none; `expected` says in either case what should stand there.
template <class Number>
struct Parsed {
  std::optional<Number> number;
  std::string expected;
};

/// What a whole number may be, bounds included.
struct WholeRange {
  core::Index least = 1;
  core::Index most = INT64_MAX;

  /// "a whole number, 1 or more", "a whole number from 1 to 256".
  std::string describe() const;
};

/// A whole number. Nothing for 010 and 0x10 (octal, hexadecimal), 1e3, 1.5, blanks, and what is out of range.
Parsed<core::Index> parse_whole(std::string_view text, const WholeRange& range);

/// A finite number above 0. Nothing as above, but 1e3 and 1.5 are numbers, and for inf, nan, 1e999.
Parsed<double> parse_positive(std::string_view text);

/// Bytes, 1 or more: a whole number, perhaps with KiB, MiB, GiB or TiB after it. Worked example: 2GiB is 2147483648.
Parsed<core::Index> parse_bytes(std::string_view text);
/// The shortest text that parse_bytes() takes for so many: 3221225472 is 3GiB, 1000 is 1000.
std::string bytes_text(core::Index bytes);

/// ", did you mean 'x'?" for the candidate nearest to `word`, or nothing when none is near. Capitals do not count, and
/// other programs' names are known: bf16, half, yes.
std::string suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace annulus::runfile
