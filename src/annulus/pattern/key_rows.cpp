#include "annulus/pattern/key_rows.hpp"

#include <algorithm>

namespace annulus::pattern {

KeyRows KeyRows::raw(const StoredRows& rows) {
  std::vector<std::pair<Interval, Index>> places;
  for (std::size_t i = 0; i < rows.intervals().size(); ++i)
    places.push_back({rows.intervals()[i], rows.stored_begin(i)});
  return raw(std::move(places));
}

KeyRows KeyRows::raw(std::vector<std::pair<Interval, Index>> places) {
  // Ascending rows, so that runs of a comb ascend in their index.
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  KeyRows keys;
  for (const auto& [interval, stored] : places) {
    if (interval.empty()) continue;
    keys.stretches_.push_back({interval, {{{{interval.begin, 1, interval.size()}, stored}}}});
    keys.count_ += interval.size();
  }
  return keys;
}

KeyRows KeyRows::packed(const Cargo& cargo) {
  KeyRows keys;
  keys.packed_ = true;
  for (const Stretch& stretch : cargo) {
    StoredStretch stored{stretch.rows, {}};
    for (const std::vector<Part>& parts : stretch.heads) {
      auto& head = stored.heads.emplace_back();
      for (const Part& part : parts) {
        head.push_back({part, keys.count_});
        keys.count_ += part.count;
      }
    }
    keys.stretches_.push_back(std::move(stored));
  }
  return keys;
}

std::size_t KeyRows::first_behind(Index row) const {
  const auto found = std::partition_point(stretches_.begin(), stretches_.end(),
                                          [&](const StoredStretch& stretch) { return stretch.rows.end <= row; });
  return std::size_t(found - stretches_.begin());
}

const KeyRows::StoredPart* KeyRows::find(std::size_t i, Index kv, const Part& piece) const {
  const StoredStretch& stretch = stretches_[i];
  for (const StoredPart& stored : stretch.heads[packed_ ? std::size_t(kv) : 0]) {
    if (contains(stored.part, piece)) return &stored;
  }
  return nullptr;
}

}  // namespace annulus::pattern
