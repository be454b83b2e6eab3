// Reads JSON from files that other programs may have written, and writes JSON. Include this file only in .cpp files of
// rooms that link the JSON library.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace annulus::store {

/// Parses JSON. For text that is not JSON, or that has more levels than any JSON that this program writes, returns a
/// value for which is_discarded() is true. Levels are limited because functions that visit all values call themselves
/// once for each level, and a text of some megabytes can have millions of levels.
inline nlohmann::ordered_json parse_json(const std::string& text) {
  constexpr int most_levels = 64;
  int deepest = 0;
  using Event = nlohmann::ordered_json::parse_event_t;
  const auto keep = [&](int depth, Event, nlohmann::ordered_json&) {
    deepest = std::max(deepest, depth);
    return depth < most_levels;
  };
  nlohmann::ordered_json parsed = nlohmann::ordered_json::parse(text, keep, false);
  if (deepest >= most_levels) return nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded);
  return parsed;
}

/// Returns `json`. Throws an exception of the JSON library if a number in `json` is not a whole number of 64 bits. Call
/// this function before numbers are converted to Index, because converting 1e300, for example, is undefined behaviour.
inline const nlohmann::ordered_json& whole_numbers(const nlohmann::ordered_json& json) {
  if (json.is_number()) json.get_ref<const nlohmann::ordered_json::number_integer_t&>();
  if (json.is_structured()) {
    for (const nlohmann::ordered_json& one : json) whole_numbers(one);
  }
  return json;
}

/// The text of `json`, on one line if `indent` is -1. JSON must be UTF-8, but names of folders need not be. So U+FFFD
/// replaces each byte that is not valid UTF-8.
inline std::string text_of(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace annulus::store
