// Statistics of the probabilities P = exp(s - lse) of query rows and keys (backward.hpp). P is computed again from the
// scores, so that no buffer has n x n numbers for n rows. If a row sees a key through several pairs of the pattern, P
// is added up over these pairs.
//   received   per key row and query head: the sum of P over the query rows
//   top        per query row and head: the key rows of largest P
#pragma once

#include <functional>

#include "annulus/core/buffer.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// One call's tensors: q (B, rows, H, D), k (B, stored rows, Hkv, D) of one storage type.
struct StatisticOperands {
  core::TensorView q;
  core::TensorView k;
  core::TensorView normalizers;  ///< (B, rows, H, 2) of the accumulation precision, as finish() writes them
  double scale = 1;              ///< scores are scale * q.k
  /// StatisticViews::received has the sums of the tensors' query head h in slot (first_head + h) mod slots.
  core::Index slots = 1;
  core::Index first_head = 0;
  /// All pairs of each head, (H, pairs), in the default execution space's memory. Kernels read them to count through
  /// how many pairs a row sees a key. If there is only one pair, kernels do not read them.
  const core::HeadPair* head_pairs = nullptr;
  core::Index pairs = 1;
  CallRule rule = {};
};

/// The memory in which statistics are added up. Before the first call sums must be zero, and lists must be empty.
struct StatisticViews {
  core::TensorView received;  ///< (B, stored rows, Hkv, slots) float64; stored rows are those of k
  /// Lists of `top_keys` entries (top_list.hpp), (B, rows, H, top_keys), null if not wanted. top_rows has global key
  /// rows. top_weights has the accumulation precision; finish_top() multiplies by the normalizer's factor to make P.
  void* top_weights = nullptr;
  core::Index* top_rows = nullptr;
  core::Index top_keys = 0;
};

/// Adds the statistics of the items' (query, key) pairs. Every (query row, head), and every (key row, key/value head),
/// must be in at most one item of the list. The sums of a key row take queries in ascending comb order, one after
/// another. Lists do not depend on the order in which keys come. `poll` and errors are as in attend(). Complete on
/// return.
///   rows  number of query rows in q and in the lists
void attend_statistics(Backend backend, const core::WorkList& work, const core::Shape& shape, core::Index rows,
                       core::Precision precision, const StatisticOperands& operands, const StatisticViews& statistics,
                       const std::function<void()>& poll = {});

/// Returns how many bytes attend_statistics() takes at most for the panels of all threads together.
core::Index attend_statistics_bytes(Backend backend, const core::Shape& shape, core::Index rows, core::Index slots,
                                    core::Index pairs, core::Precision precision);

/// Empties all lists: B * rows * H of them.
void clear_top(const core::Shape& shape, core::Index rows, core::Precision precision, const StatisticViews& statistics);
/// Writes P of the listed keys, rounded to the type of `to`, into `to` (B, rows, H, top_keys). If the rounded P is 0,
/// the row number of this key in top_rows becomes -1. `to` may be the memory of `top_weights` if both have the same
/// type. Complete on return.
void finish_top(const core::Shape& shape, core::Index rows, core::Precision precision, const StatisticViews& statistics,
                const core::TensorView& normalizers, const core::TensorView& to);

}  // namespace annulus::kernels
