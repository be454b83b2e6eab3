// A plan is made once and used in many calls. It contains the pattern and the strategy, and says which rank holds which
// rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annulus/core/exception.hpp"
#include "annulus/core/types.hpp"

namespace annulus {

using core::DType;
using core::Error;
using core::ErrorKind;
using core::Index;
using core::Interval;

/// The value of Segment::rows for a segment that is as long as its document.
inline constexpr Index all = 0;

/// Extents of the whole problem, all ranks together.
struct Shape {
  Index batch = 1;
  Index sequence = 0;           ///< rows of q
  Index heads = 1;              ///< H, of q
  Index kv_heads = 0;           ///< Hkv, of k and v; divides heads; 0: the same as heads
  Index head_dim = 0;           ///< D
  DType type = DType::float32;  ///< of q, k, v, out and gradients; lse is float32, or float64 for float64
  Index kv_sequence = 0;        ///< S, rows of the sequence, of k and v; 0: the same as q. See Pattern::query_offset
  Index value_dim = 0;          ///< Dv, head size of v, out and dout; 0: the same as D
  /// Unless this is true, a problem is refused if it has more than 256 key/value heads and more of these heads than
  /// rows, because then usually a tensor (B, heads, S, D) was taken for (B, S, heads, D).
  bool more_heads_than_rows = false;
};

/// A pair can have a window instead of a segment: for every head, row x sees the rows x - j r of its document, for
/// -right <= j <= left, where r is the pair's dilation. If r = 1, row x also sees the first `first` rows of the
/// document; no row counts twice.
struct Window {
  Index left = 0;
  Index right = 0;  ///< has no effect if causal
  Index first = 0;  ///< number of rows
};

/// A segment of a pair: a number of rows, `all`, or a window.
struct Segment {
  Segment(Index rows) : rows(rows) {}
  Segment(const Window& window) : window(window) {}

  Index rows = all;
  std::optional<Window> window = {};
};

/// ALiBi subtracts from each score the head's slope times the distance between query row and key row. If `slopes` is
/// empty, head i = 1 ... H has the slope 2^(-8 i / H); if H is no power of two, slopes are those of ALiBi's code.
struct Bias {
  std::vector<double> slopes = {};       ///< one for each query head, or empty
  Index exempt = 0;                      ///< number of first rows of a document that are at distance 0 from every row
  std::vector<double> coordinates = {};  ///< (S, 2), for Euclidean distances; empty: differences of row numbers
};
/// Values of Pattern::query_offset. last_rows: queries are the last rows of the sequence. no_rows: queries have no row
/// numbers.
inline constexpr Index last_rows = -1;
inline constexpr Index no_rows = -2;

/// Which rows see each other (docs/semantics.md): pair i cuts every document into segments of segments[i] rows and
/// picks every dilations[i]-th row of a segment. The picked rows of a segment see each other. If segments[i] is a
/// window, each row sees the rows in its window instead. The default is dense attention. Worked example: each row sees
/// 4096 rows before it, itself, and the first 4 rows: {.segments = {Window{4096, 0, 4}}}.
struct Pattern {
  std::vector<Segment> segments{all};
  std::vector<Index> dilations{1};
  bool causal = false;
  std::string semantics = "longnet";  ///< one of `annulus list`: longnet, paper, grouped, torchscale
  /// 0 = d0 <= d1 <= ... <= S: rows of different documents [d0, d1), [d1, d2), ... do not see each other. Rows after
  /// the last document do not exist: whatever values the tensors have there, out is 0, lse -inf, and gradients are 0.
  std::vector<Index> documents = {};
  std::optional<double> scale = {};  ///< factor of q.k; none: 1 / sqrt(D)
  bool group_scale = false;          ///< only for grouped: `out` is divided by the number of pairs
  /// Instead of documents: ascending ranges [begin, end) of the rows that exist. With no_rows (see query_offset) there
  /// is one range, which says which keys exist; all queries exist then.
  std::vector<Interval> ranges = {};
  bool sink = false;  ///< a row that sees a key also sees a key of value 0, whose score is in ForwardTensors::sink
  std::optional<double> softcap = {};  ///< scores s become softcap tanh(s / softcap)
  std::optional<Bias> bias = {};       ///< subtracted after the softcap
  /// The row of the sequence that is the first query, or last_rows, if there are fewer queries than keys. With no_rows,
  /// for any number of queries, every query sees every key (dense attention, not causal, one document).
  Index query_offset = last_rows;
};

/// Says how to compute attention; values as in the run file (docs/run-file.md).
struct Options {
  std::string strategy = "auto";   ///< one of `annulus list`, but not stream; without effect on one rank
  std::string partition = "auto";  ///< contiguous, zigzag, block_cyclic, documents
  std::string precision = "auto";  ///< of sums, or of products; values as in the run file
  bool reproducible = false;       ///< same bits for every number of ranks
  bool gradients = false;          ///< true if you will call attention_backward() after attention()
  bool entropy = false;            ///< statistics of the probabilities: see Statistics in library/passes.hpp
  bool received = false;
  Index top_keys = 0;
  Index block_size = 0;   ///< rows of a block of block_cyclic; 0: automatic
  int ulysses_ranks = 0;  ///< number of ranks in a group of strategy hybrid; 0: all ranks
};

/// Rows that a rank holds, in the order in which its tensors store them.
struct Rows {
  std::vector<Interval> intervals = {};
  Index count() const;
};

namespace library {
struct MadePlan;
}

/// Ranks that use the same arguments make equal plans. If their processors differ, make the Communicator before the
/// plan, because the Communicator makes all ranks use the same instruction set. Making a plan needs no running MPI.
/// Copies share the contents. Worked example, 2 ranks of 131,072 rows each:
///   Plan plan({.sequence = 262144, .heads = 8, .kv_heads = 2, .head_dim = 64},
///             {.segments = {2048, all}, .dilations = {1, 8}, .causal = true}, 2, {.gradients = true});
class Plan {
 public:
  /// Throws Error(usage) that names the argument, its value and what was expected.
  Plan(const Shape& shape, const Pattern& pattern, int ranks = 1, const Options& options = {});
  Plan(const Shape& shape, const Pattern& pattern, int ranks, const char* strategy);

  const Shape& shape() const;
  int ranks() const;
  /// The chosen strategy and partition, and why: "ring", "contiguous", "ring, contiguous: predicted 0.1 s, next ...".
  const std::string& strategy() const;
  const std::string& partition() const;
  const std::string& reason() const;

  /// rows() returns the rows of k and v that `rank` has. query_rows() returns the rank's rows of q, out, ..., numbered
  /// from the first query; they equal rows() if all rows are queries. Throws Error(usage) if there is no such rank.
  Rows rows(int rank) const;
  Rows query_rows(int rank) const;
  /// Number of (query, key, head) triples kept for a rank's queries, batch entries included. The forward pass computes
  /// 2 (D + Dv) flops for each triple. This function and the next three throw Error(usage) if there is no such rank, or
  /// with `backward` if the plan was made without gradients.
  double kept(int rank) const;
  /// Bytes that a rank receives and sends in the forward pass, or in the backward pass.
  Index received(int rank, bool backward = false) const;
  Index sent(int rank, bool backward = false) const;
  /// Peak bytes of a rank's tensors and buffers, inputs and results included.
  Index memory(int rank, bool backward = false) const;

  const library::MadePlan& made() const { return *made_; }

 private:
  std::shared_ptr<const library::MadePlan> made_;
};

}  // namespace annulus
