#include "annulus/runfile/user_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace annulus::runfile {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

/// C and YAML 1.1 read 010 as 8, and 0x10 as 16. Other programs read 010 as 10, and 0x10 as 0. So we cannot know what
/// the user meant.
bool looks_octal_or_hexadecimal(std::string_view digits) {
  return digits.size() > 1 && digits[0] == '0' && digits[1] != '.' && digits[1] != 'e' && digits[1] != 'E';
}

/// Converts the complete `text` as a decimal number. from_chars does not accept '+', so a '+' is skipped.
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

/// The least number of changes that turn one word into the other. A change inserts, deletes or replaces a letter, or
/// swaps two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);  // rows i - 2, i - 1, i of the table
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

std::string lower(std::string_view word) {
  std::string text(word);
  for (char& letter : text) letter = char(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

using Name = std::pair<std::string_view, std::string_view>;
/// Names that other programs and YAML 1.1 use, each with our name for the same thing.
constexpr std::array<Name, 20> other_names{{
    {"bf16", "bfloat16"},  {"f16", "float16"},   {"fp16", "float16"},   {"half", "float16"}, {"f32", "float32"},
    {"fp32", "float32"},   {"float", "float32"}, {"single", "float32"}, {"f64", "float64"},  {"fp64", "float64"},
    {"double", "float64"}, {"yes", "true"},      {"on", "true"},        {"1", "true"},       {"no", "false"},
    {"off", "false"},      {"0", "false"},       {"null", "none"},      {"true", "on"},      {"false", "off"},
}};

/// Returns our name for `word`, if our name is a candidate and `word` is not. Otherwise returns `word` in lower case.
std::string known_name(std::string_view word, const std::vector<std::string>& candidates) {
  const auto offered = [&](std::string_view name) {
    return std::find(candidates.begin(), candidates.end(), name) != candidates.end();
  };
  const std::string text = lower(word);
  const auto same = [&](const Name& name) { return name.first == text && offered(name.second); };
  const auto found = std::find_if(other_names.begin(), other_names.end(), same);
  return offered(text) || found == other_names.end() ? text : std::string(found->second);
}

}  // namespace

Parsed<core::Index> parse_whole(std::string_view text, const WholeRange& range) {
  const std::string expected = range.most == INT64_MAX
                                   ? fmt::format("a whole number, {} or more", range.least)
                                   : fmt::format("a whole number from {} to {}", range.least, range.most);
  const std::string_view digits = without_sign(text);
  if (looks_octal_or_hexadecimal(digits)) return {std::nullopt, expected + leading_zero};
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return {std::nullopt, expected};
  const auto number = convert<core::Index>(text);
  if (!number && range.most == INT64_MAX) return {std::nullopt, fmt::format("{}, at most {}", expected, range.most)};
  if (!number || *number < range.least || *number > range.most) return {std::nullopt, expected};
  return {number, expected};
}

Parsed<double> parse_positive(std::string_view text) {
  const std::string expected = "a finite number above 0";
  const std::string_view digits = without_sign(text);
  if (looks_octal_or_hexadecimal(digits)) return {std::nullopt, expected + leading_zero};
  // from_chars also accepts "inf" and "nan", so the text must start with a digit, or with a point and a digit.
  const bool starts_well = !digits.empty() && (is_digit(digits[0]) || (digits.size() > 1 && is_digit(digits[1])));
  const auto number = starts_well ? convert<double>(text) : std::nullopt;
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
    break;
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

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong, in short words one letter: "cusal" is similar to "causal", "depth" to no key.
  std::size_t nearest = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::string* found = nullptr;
  const std::string name = known_name(word, candidates);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < nearest) {
      nearest = distance;
      found = &candidate;
    }
  }
  return found == nullptr ? "" : ", did you mean '" + *found + "'?";
}

}  // namespace annulus::runfile
