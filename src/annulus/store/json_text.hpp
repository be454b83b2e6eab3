// JSON out of files that somebody else may have written. Included by .cpp files that link the library for it.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace annulus::store {

/// Parses JSON of a depth that this program writes itself; anything else is what `discarded` stands for, as for a text
/// that is no JSON: what walks through values calls itself once for each level, and a text of megabytes can have
/// millions of them.
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

}  // namespace annulus::store
