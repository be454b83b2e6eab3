// Dilated attention by its definition, in float64 and without optimisation. Tests and `verify` compare results with it.
//
// On purpose this code has its own types for patterns, shares no comb arithmetic with the folder pattern/, and checks
// for every single pair of rows whether both are picked. So a mistake in pattern/ makes results differ from those of
// this code.
//
// Worked example: 10 rows, 4 heads, pairs (4, 1) and (8, 2), causal, longnet. Head 0, query row 6 sees rows 4 5 6 in
// the first pair and rows 0 2 4 6 in the second: multiplicity 2 for rows 4 and 6, 1 for rows 0, 2, 5, otherwise 0.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Decides which rows of a segment a head picks (multiplicity()), and which keys replace missing rows (filled_in()).
enum class ReferenceSemantics { longnet, paper, grouped, torchscale };

/// The value of ReferencePair::segment if the pair's only segment is the whole document (`all` in a run file).
inline constexpr core::Index whole_document = 0;

/// A sliding window, which a pair has in place of segments. Row x sees row p of its document if x - p = j * dilation
/// for a whole number j with -right <= j <= left, or if p, counted from the document's start, is below `first`. If
/// `mirrored` is true, the last condition is instead that x is below `first` (see the function mirrored()).
struct ReferenceWindow {
  core::Index left = 0;
  core::Index right = 0;
  core::Index first = 0;
  bool mirrored = false;
};

/// A segment length in rows (0 or less: whole_document) and a dilation rate, or a window and a dilation rate.
struct ReferencePair {
  core::Index segment = whole_document;
  core::Index dilation = 1;
  std::optional<ReferenceWindow> window = {};
};

struct ReferencePattern {
  ReferenceSemantics semantics = ReferenceSemantics::longnet;
  std::vector<ReferencePair> pairs = {ReferencePair{}};
  bool causal = false;
  double scale = 1;                         ///< scores are scale * q.k
  bool group_scale = false;                 ///< out (not lse) is divided by the number of pairs
  std::vector<core::Index> documents = {};  ///< ascending offsets 0 ... S of packed documents; empty: one document
  std::vector<core::Index> gaps =
      {};  ///< ascending indices of documents that are gaps: rows of a gap see no row, and no row sees them
  /// For each query head, the score of one more key, whose value is 0. A row that sees any other key also sees this
  /// key. A score is finite, or -inf if the head has no such key. Empty: no head has such a key.
  std::vector<double> sink = {};
  double softcap = 0;                    ///< scores s become softcap tanh(s / softcap); 0: they stay as they are
  std::vector<double> slopes = {};       ///< per query head: slope * distance() is subtracted; empty: no bias
  core::Index exempt = 0;                ///< number of rows at a document's start whose distance from every row is 0
  std::vector<double> coordinates = {};  ///< (S, 2); empty: distances are differences of row numbers
};

/// Returns the distance between rows x and p, both counted from the start of the sequence. The bias of their score is
/// minus this distance times the head's slope. `document` is the document of x.
double distance(const ReferencePattern& pattern, core::Index x, core::Index p, core::Interval document);

/// The score of query row x and key row p, made from `product` = scale * q.k, and the score's derivative by `product`.
struct ReferenceScore {
  double value;
  double slope;  ///< the derivative; not a slope of the bias
};
ReferenceScore score_of(const ReferencePattern& pattern, core::Index head, core::Index x, core::Index p,
                        core::Interval document, double product);

/// Returns a pattern that is not causal, in which row p sees row x if `pattern` without its causal mask lets x see p.
ReferencePattern mirrored(ReferencePattern pattern);

/// Returns the rows of the document that holds row x. If x is in a gap, the result [x, x) has no rows.
core::Interval document_of(const ReferencePattern& pattern, core::Index sequence, core::Index x);

/// Counts the pairs in which rows x (query) and p (key) are both picked in one segment of one document, or in which p
/// lies in the window of x. Returns 0 if causality hides p. x and p are counted from the start of the sequence;
/// `document` is the document of x.
core::Index multiplicity(const ReferencePattern& pattern, core::Index heads, core::Index head, core::Index x,
                         core::Index p, core::Interval document);

/// Returns how many filled-in keys, of score 0 and value 0, row x sees. torchscale pads a segment of s = min(segment,
/// rows of the document) rows to ceil(s / dilation) slots of `dilation` rows each, and does not mask the padding. A
/// head sees a filled-in key for each slot in which the row at the head's offset is not one of the segment's rows.
///
/// Worked example: 10 rows, one pair (8, 2), 2 heads. The last segment, rows 8 and 9, has 4 slots. Head 0 finds row 8
/// in the first slot and zeros in the other three slots, so row 8 sees itself and three filled-in keys. In head 1,
/// row 9 sees itself and three filled-in keys.
core::Index filled_in(const ReferencePattern& pattern, core::Index heads, core::Index head, core::Index x,
                      core::Interval document);

/// Returns the smallest range that has all rows of non-zero multiplicity for row x. Without such rows it is empty.
core::Interval key_range(const ReferencePattern& pattern, core::Index sequence, core::Index heads, core::Index head,
                         core::Index x);

/// Rows first, first + step, ... below `end`.
struct RowRun {
  core::Index first = 0;
  core::Index end = 0;
  core::Index step = 1;
};

/// Returns the rows of non-zero multiplicity for row x: a run for each pair in which x is picked, and one more run for
/// the rows that x sees by ReferenceWindow::first. Runs may overlap. This function is for sequences so long that a call
/// of multiplicity() for each row would take too much time.
std::vector<RowRun> key_runs(const ReferencePattern& pattern, core::Index sequence, core::Index heads, core::Index head,
                             core::Index x);

/// The attention of one row of one query head. The caller adds keys one by one, in any order, because a file of keys
/// may be too large for memory. An object has O(D) numbers. The pattern must outlive the object, which does not copy
/// the pattern, because a pattern may have thousands of documents.
class ReferenceRow {
 public:
  /// Begins row x of `shape.sequence` rows for query head `head`. q (D) is the row's query vector.
  ReferenceRow(const ReferencePattern& pattern, const core::Shape& shape, core::Index head, core::Index x,
               std::span<const double> q);
  ReferenceRow(ReferencePattern&&, const core::Shape&, core::Index, core::Index, std::span<const double>) = delete;

  /// Adds key row p with vectors k (D) and v (Dv), multiplicity() times. Call this exactly once for each row p of
  /// non-zero multiplicity. For other rows it changes nothing.
  void add(core::Index p, std::span<const double> k, std::span<const double> v);

  /// Writes the output vector (Dv) and the log-sum-exp. If no key counted, these are zeros and -inf.
  void finish(std::span<double> out, double& lse) const;

  /// Returns -sum P ln P in nats, which is lse minus the mean of the scores with weights P. The sum is over all keys
  /// (each as often as it counts), filled-in keys and the sink key. Returns 0 if no key counted.
  double entropy() const;

 private:
  /// max_, sum_ and scores_ with the sink as one more key. `max` is the larger of max_ and the sink's score. `sum`,
  /// `scores` and shrink * acc_ have weights exp(score - max).
  struct Totals {
    double max, sum, scores, shrink;
  };
  Totals totals() const;

  const ReferencePattern& pattern_;
  core::Index heads_;
  core::Index head_;
  core::Index x_;
  core::Interval document_;
  std::vector<double> q_;
  double max_;               // largest score so far; -inf before the first key; filled-in keys have score 0
  double sum_ = 0;           // sum of the weights: multiplicity * exp(score - max_)
  double scores_ = 0;        // sum of weight * score
  std::vector<double> acc_;  // sum of weight * v
};

}  // namespace annulus::kernels
