#include "annulus/runfile/suggest.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <utility>

namespace annulus::runfile {
namespace {

/// Letters to insert, delete, replace, or swap with their neighbour to turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);  // rows i - 2, i - 1, i of the usual table
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
/// What other programs, and YAML 1.1, call the same thing.
constexpr std::array<Name, 20> other_names{{
    {"bf16", "bfloat16"},  {"f16", "float16"},   {"fp16", "float16"},   {"half", "float16"}, {"f32", "float32"},
    {"fp32", "float32"},   {"float", "float32"}, {"single", "float32"}, {"f64", "float64"},  {"fp64", "float64"},
    {"double", "float64"}, {"yes", "true"},      {"on", "true"},        {"1", "true"},       {"no", "false"},
    {"off", "false"},      {"0", "false"},       {"null", "none"},      {"true", "on"},      {"false", "off"},
}};

/// The word in small letters, or what is called so here where only that is a candidate.
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

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong, one at least: "cusal" is near "causal", "depth" is near nothing.
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
