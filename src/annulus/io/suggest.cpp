#include <algorithm>
#include <numeric>

#include "annulus/io/run_file.hpp"

namespace annulus::io {
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

}  // namespace

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong, one at least: "cusal" is near "causal", "depth" is near nothing.
  std::size_t nearest = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < nearest) {
      nearest = distance;
      found = &candidate;
    }
  }
  return found == nullptr ? "" : ", did you mean '" + *found + "'?";
}

}  // namespace annulus::io
