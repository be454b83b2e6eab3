// Suggests words for misspelt words, and reads numbers in run files and on the command line. A text is valid if all of
// it is one decimal number within the range (a number of bytes may have a unit).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::runfile {

/// The result of reading a number. `number` is empty if the text is not valid. `expected` always says what is valid.
template <class Number>
struct Parsed {
  std::optional<Number> number;
  std::string expected;
};

/// The valid whole numbers, bounds included.
struct WholeRange {
  core::Index least = 1;
  core::Index most = INT64_MAX;
};

/// Reads a whole number, with or without a sign. Not valid: 010 and 0x10 (octal, hexadecimal), 1e3, 1.5, text with
/// blanks, and numbers outside the range.
Parsed<core::Index> parse_whole(std::string_view text, const WholeRange& range);

/// Reads a finite number above 0, such as 1e3, 1.5 or +1.5. Not valid: 010, 0x10, text with blanks, inf, nan, 1e999.
Parsed<double> parse_positive(std::string_view text);

/// Reads a number of bytes, at least 1: a whole number, perhaps with the unit KiB, MiB, GiB or TiB. 2GiB is 2147483648.
Parsed<core::Index> parse_bytes(std::string_view text);
/// The number in the largest unit in which it is whole, as parse_bytes() reads it: 3221225472 is 3GiB, 1000 is 1000.
std::string bytes_text(core::Index bytes);

/// Returns the end of a message, ", did you mean 'x'?", where x is the candidate most similar to `word`; an empty text
/// if none is similar. Capital letters count as small ones. For a name that other programs use (bf16, half, yes), x may
/// be our name for the same thing.
std::string suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace annulus::runfile
