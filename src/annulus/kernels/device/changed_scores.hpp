// Changes scores by a rule (kernels/score_rule.hpp), one (query, key) pair at a time:
//   score = cap tanh(score / cap)           score and cap are in base 2 (times log2(e))
//   score = score - slope of the head * dist(query row, key row)
// Kernels are instantiated twice: for PlainScores, which adds no code to them, and for ChangedScores.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

#include "annulus/core/buffer.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/score_rule.hpp"

namespace annulus::kernels::device {

/// A score, and its derivative with respect to scale * q.k: 1 - tanh^2 if there is a cap, otherwise 1.
template <class T>
struct ChangedScore {
  T score;
  T derivative;
};

struct PlainScores {
  template <class T>
  KOKKOS_FUNCTION ChangedScore<T> operator()(const core::WorkItem&, T score, core::Index, core::Index,
                                             core::Index) const {
    return {score, T(1)};
  }
};

template <class T>
struct ChangedScores {
  using Coordinate = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

  T cap;               ///< times log2(e); 0: no cap
  const T* slopes;     ///< of the tensors' query heads, times log2(e) and the unit of coordinates; null: no bias
  core::Index exempt;  ///< a pair has no bias if one of its rows is among this many first rows of its document
  /// (S, 2), whole numbers (Coordinates::whole); null: distances are differences of row numbers.
  const Coordinate* coordinates;

  /// Changes the score of the query at comb index query_t of the item and the key at key_t. `head` is the query's head.
  KOKKOS_FUNCTION ChangedScore<T> operator()(const core::WorkItem& item, T score, core::Index query_t,
                                             core::Index key_t, core::Index head) const {
    ChangedScore<T> changed{score, T(1)};
    if (cap > T(0)) {
      const T bent = core::tanh(score / cap);
      changed = {cap * bent, T(1) - bent * bent};
    }
    if (slopes == nullptr) return changed;
    const core::Index x = item.first_row + query_t * item.row_step, p = item.first_row + key_t * item.row_step;
    if (x >= exempt && p >= exempt) changed.score -= slopes[head] * distance(item.document, x, p);
    return changed;
  }

 private:
  KOKKOS_FUNCTION T distance(core::Index document, core::Index x, core::Index p) const {
    if (coordinates == nullptr) return T(x < p ? p - x : x - p);
    const Coordinate* const a = coordinates + 2 * (document + x);
    const Coordinate* const b = coordinates + 2 * (document + p);
    const T across = T(a[0] - b[0]), down = T(a[1] - b[1]);
    return core::sqrt(across * across + down * down);
  }
};

/// Holds a rule's tables in device memory.
template <class T>
class DeviceRule {
 public:
  /// Copies the rule's tables, with the slopes of `heads` query heads; complete on return.
  DeviceRule(const CallRule& call, core::Index heads);

  const ChangedScores<T>& view() const { return view_; }

 private:
  core::Buffer slopes_;
  core::Buffer coordinates_;
  ChangedScores<T> view_{};
};

/// Calls run(rule) for a call that has `heads` query heads; the rule is a PlainScores or a ChangedScores.
template <class T, class Run>
void with_rule(const CallRule& call, core::Index heads, const Run& run) {
  if (call.rule == nullptr) return run(PlainScores{});
  const DeviceRule<T> rule(call, heads);
  run(rule.view());
}

}  // namespace annulus::kernels::device
