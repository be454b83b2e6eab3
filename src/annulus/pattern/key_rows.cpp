#include "annulus/pattern/key_rows.hpp"

#include <algorithm>

namespace annulus::pattern {

KeyRows KeyRows::raw(const StoredRows& rows) {
  std::vector<std::pair<Interval, Index>> locations;
  for (std::size_t i = 0; i < rows.intervals().size(); ++i)
    locations.push_back({rows.intervals()[i], rows.stored_begin(i)});
  return raw(std::move(locations));
}

KeyRows KeyRows::raw(std::vector<std::pair<Interval, Index>> locations) {
  // Sorts the intervals by rows, so that the runs of a comb ascend in their comb index.
  std::sort(locations.begin(), locations.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  KeyRows keys;
  for (const auto& [interval, stored] : locations) {
    if (interval.empty()) continue;
    keys.owned_.push_back({interval, {{{{interval.begin, 1, interval.size()}, stored}}}});
    keys.count_ += interval.size();
  }
  return keys;
}

KeyRows KeyRows::packed(const PackedRows& packed) {
  KeyRows keys;
  keys.packed_ = true;
  for (const OwnerInterval& owned : packed) {
    StoredInterval stored{owned.rows, {}};
    for (const std::vector<StridedRange>& ranges : owned.heads) {
      auto& head = stored.heads.emplace_back();
      for (const StridedRange& range : ranges) {
        head.push_back({range, keys.count_});
        keys.count_ += range.count;
      }
    }
    keys.owned_.push_back(std::move(stored));
  }
  return keys;
}

std::size_t KeyRows::first_ending_after(Index row) const {
  const auto found = std::partition_point(owned_.begin(), owned_.end(),
                                          [&](const StoredInterval& owned) { return owned.rows.end <= row; });
  return std::size_t(found - owned_.begin());
}

const KeyRows::StoredRange* KeyRows::find(std::size_t i, Index kv, const StridedRange& piece) const {
  const StoredInterval& owned = owned_[i];
  for (const StoredRange& stored : owned.heads[packed_ ? std::size_t(kv) : 0]) {
    if (contains(stored.range, piece)) return &stored;
  }
  return nullptr;
}

}  // namespace annulus::pattern
