#include "annulus/runfile/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace annulus::runfile {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

/// C and YAML 1.1 read 010 as 8 and 0x10 as 16, other programs as 10, or as 0: which was meant cannot be known.
bool looks_octal_or_hexadecimal(std::string_view digits) {
  return digits.size() > 1 && digits[0] == '0' && digits[1] != '.' && digits[1] != 'e' && digits[1] != 'E';
}

/// All of `text` as a number in decimal; from_chars knows no '+'.
template <class Number>
std::optional<Number> convert(std::string_view text) {
  if (text[0] == '+') text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct ByteUnit {
  std::string_view name;
  core::Index bytes;
};
constexpr std::array byte_units{ByteUnit{"TiB", core::Index(1) << 40}, ByteUnit{"GiB", core::Index(1) << 30},
                                ByteUnit{"MiB", core::Index(1) << 20}, ByteUnit{"KiB", core::Index(1) << 10}};

const std::string leading_zero = "; a leading 0 looks octal or hexadecimal, write it in decimal";

}  // namespace

std::string WholeRange::describe() const {
  return most == INT64_MAX ? fmt::format("a whole number, {} or more", least)
                           : fmt::format("a whole number from {} to {}", least, most);
}

Parsed<core::Index> parse_whole(std::string_view text, const WholeRange& range) {
  const std::string expected = range.describe();
  const std::string_view digits = without_sign(text);
  if (looks_octal_or_hexadecimal(digits)) return {std::nullopt, expected + leading_zero};
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return {std::nullopt, expected};
  const auto number = convert<core::Index>(text);
  if (!number || *number < range.least || *number > range.most) return {std::nullopt, expected};
  return {number, expected};
}

Parsed<double> parse_positive(std::string_view text) {
  const std::string expected = "a finite number above 0";
  const std::string_view digits = without_sign(text);
  if (looks_octal_or_hexadecimal(digits)) return {std::nullopt, expected + leading_zero};
  // from_chars also knows "inf" and "nan": a number starts with a digit, or with a point and a digit.
  const bool starts_well = !digits.empty() && (is_digit(digits[0]) || (digits.size() > 1 && is_digit(digits[1])));
  if (!starts_well) return {std::nullopt, expected};
  const auto number = convert<double>(text);
  if (!number || !std::isfinite(*number) || *number <= 0) return {std::nullopt, expected};
  return {number, expected};
}

Parsed<core::Index> parse_bytes(std::string_view text) {
  const std::string expected = "bytes, 1 or more, like 1073741824, 512MiB or 2GiB";
  core::Index unit = 1;
  for (const ByteUnit& one : byte_units) {
    if (!text.ends_with(one.name)) continue;
    unit = one.bytes;
    text.remove_suffix(one.name.size());
  }
  const Parsed<core::Index> count = parse_whole(text, {1, INT64_MAX / unit});
  if (!count.number) return {std::nullopt, expected};
  return {*count.number * unit, expected};
}

std::string bytes_text(core::Index bytes) {
  for (const ByteUnit& one : byte_units) {
    if (bytes >= one.bytes && bytes % one.bytes == 0) return fmt::format("{}{}", bytes / one.bytes, one.name);
  }
  return std::to_string(bytes);
}

}  // namespace annulus::runfile
