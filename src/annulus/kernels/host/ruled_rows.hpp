// Computes the numbers of a rule (ruled_pairs.hpp) for a task's query rows and keys, from work items.
#pragma once

#include <algorithm>
#include <numbers>

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/host/ruled_pairs.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/score_rule.hpp"

namespace annulus::kernels::host {

/// Takes a thread's memory for the rule of `rows` query rows and `keys` keys from `scratch`.
template <class N>
RuledPairs<N> ruled_pairs(Scratch& scratch, core::Index rows, core::Index keys) {
  const auto positions = [&](core::Index count) { return scratch.take<Position<N>>(count); };
  N* const slopes = scratch.take<N>(rows);
  Position<N>*const row_x = positions(rows), *const row_y = positions(rows);
  Position<N>*const key_x = positions(keys), *const key_y = positions(keys);
  return {0, 0, slopes, row_x, row_y, key_x, key_y, scratch.take<N>(keys)};
}

/// A call's rule in the units of tiles; one object serves all threads.
template <class N>
class RuleOf {
 public:
  explicit RuleOf(const CallRule& call) : call_(call) {
    if (call.rule != nullptr && call.rule->coordinates) unit_ = call.rule->coordinates->unit(position_bits);
  }

  bool is_there() const { return call_.rule != nullptr; }

  /// Sets the members of `pairs` that are the same for all rows and keys.
  void begin(RuledPairs<N>& pairs) const {
    const ScoreRule& rule = *call_.rule;
    pairs.cap = N(rule.cap * std::numbers::log2e);
    pairs.twice = rule.has_cap() ? N(2 / rule.cap) : N(0);
    if (!rule.has_bias()) pairs.slopes = nullptr;
    if (!rule.coordinates) pairs.row_y = pairs.key_y = nullptr;
  }
  /// Sets query row number i, which has comb index t of the item and query head `head` of the tensors.
  void set_row(RuledPairs<N>& pairs, core::Index i, const core::WorkItem& item, core::Index t, core::Index head) const {
    if (pairs.slopes == nullptr) return;
    const ScoreRule& rule = *call_.rule;
    const core::Index row = item.first_row + t * item.row_step;
    const double slope = rule.slopes[std::size_t(call_.first_head + head)];
    pairs.slopes[i] = row < rule.exempt ? N(0) : N(slope * unit_ * std::numbers::log2e);
    set_position(item.document + row, i, pairs.row_x, pairs.row_y);
  }
  void set_key(RuledPairs<N>& pairs, core::Index j, const core::WorkItem& item, core::Index t) const {
    if (pairs.slopes == nullptr) return;
    const core::Index row = item.first_row + t * item.row_step;
    pairs.biased[j] = row < call_.rule->exempt ? N(0) : N(1);
    set_position(item.document + row, j, pairs.key_x, pairs.key_y);
  }
  /// Clears rows and keys [from, to), which do not exist.
  static void clear_rows(RuledPairs<N>& pairs, core::Index from, core::Index to) {
    if (pairs.slopes != nullptr) std::fill(pairs.slopes + from, pairs.slopes + to, N(0));
    clear(pairs, pairs.row_x, pairs.row_y, from, to);
  }
  static void clear_keys(RuledPairs<N>& pairs, core::Index from, core::Index to) {
    if (pairs.slopes != nullptr) std::fill(pairs.biased + from, pairs.biased + to, N(0));
    clear(pairs, pairs.key_x, pairs.key_y, from, to);
  }

 private:
  /// Bits of a position: a difference of positions, with its sign, must fit into a Position.
  static constexpr int position_bits = sizeof(N) == 8 ? 60 : 30;

  void set_position(core::Index row, core::Index i, Position<N>* x, Position<N>* y) const {
    if (y == nullptr) {
      x[i] = Position<N>(row);
      return;
    }
    x[i] = Position<N>(call_.rule->coordinates->whole(row, 0, unit_));
    y[i] = Position<N>(call_.rule->coordinates->whole(row, 1, unit_));
  }
  static void clear(const RuledPairs<N>& pairs, Position<N>* x, Position<N>* y, core::Index from, core::Index to) {
    if (pairs.slopes == nullptr) return;
    std::fill(x + from, x + to, Position<N>(0));
    if (y != nullptr) std::fill(y + from, y + to, Position<N>(0));
  }

  CallRule call_;
  double unit_ = 1;
};

}  // namespace annulus::kernels::host
