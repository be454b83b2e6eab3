// What is decided once about an attention and used often: pattern, strategy, and who holds which rows.
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

/// A segment as long as the document that it lies in.
inline constexpr Index all = 0;

/// Extents of the whole problem, all ranks together.
struct Shape {
  Index batch = 1;
  Index sequence = 0;           ///< rows of q
  Index heads = 1;              ///< H, of q
  Index kv_heads = 0;           ///< Hkv, of k and v, a divisor of heads; 0: as many
  Index head_dim = 0;           ///< D
  DType type = DType::float32;  ///< of q, k, v, out and gradients; lse is float64 for float64, else float32
  Index kv_sequence = 0;        ///< S, rows of the sequence, of k and v; 0: as q. See Pattern::query_offset
  Index value_dim = 0;          ///< Dv, head size of v, out and dout; 0: as q and k
  /// More than 256 key/value heads, and more of them than rows, are refused unless this says that they are meant: no
  /// model has so many, and extents of a (B, heads, S, D) tensor that were taken in the wrong order look like this.
  bool more_heads_than_rows = false;
};

/// In place of a segment: row x sees the rows x - j r of its document, r the pair's dilation, for -right <= j <= left,
/// whichever heads read. With r = 1 it sees the first rows of the document, too, each once.
struct Window {
  Index left = 0;
  Index right = 0;  ///< causal: as if 0
  Index first = 0;  ///< rows
};

/// Rows of a segment, all, or a window.
struct Segment {
  Segment(Index rows) : rows(rows) {}
  Segment(const Window& window) : window(window) {}

  Index rows = all;
  std::optional<Window> window = {};
};

/// ALiBi: scores less a head's slope times the distance of query row and key row.
struct Bias {
  std::vector<double> slopes = {};       ///< one for each query head; empty: 2^(-8 i / H), i = 1 ... H, or as near
  Index exempt = 0;                      ///< the first rows of a document are at distance 0 of every row
  std::vector<double> coordinates = {};  ///< (S, 2), of all rows of the sequence; empty: rows are |x - p| rows apart
};
/// In place of the row at which the first query stands: the queries are the last rows; they have no row numbers.
inline constexpr Index last_rows = -1;
inline constexpr Index no_rows = -2;

/// Which rows meet (docs/semantics of `annulus list`): pair i cuts every document into segments of segments[i] rows, in
/// which every dilations[i]-th row sees every such row; or it is a window. Without more it is dense attention.
/// Worked example: 4096 rows before each row, itself, and the first 4 rows: {.segments = {Window{4096, 0, 4}}}.
struct Pattern {
  std::vector<Segment> segments{all};
  std::vector<Index> dilations{1};
  bool causal = false;
  std::string semantics = "longnet";  ///< a name of `annulus list`: longnet, paper, grouped, torchscale
  /// 0 = d0 <= d1 <= ... <= S: rows [d0, d1), [d1, d2) ... do not see each other; rows after the last one do not
  /// exist: out 0, lse -inf, gradients 0, whatever stands there.
  std::vector<Index> documents = {};
  std::optional<double> scale = {};   ///< of q.k; none: 1 / sqrt(D)
  bool group_scale = false;           ///< grouped only: out is divided by the number of pairs
  std::vector<Interval> ranges = {};  ///< in place of documents: rows [begin, end) that exist, ascending, maybe apart
  bool sink = false;  ///< rows that see a key see one more, of value 0: ForwardTensors::sink has its scores
  std::optional<double> softcap = {};  ///< scores s become softcap tanh(s / softcap)
  std::optional<Bias> bias = {};       ///< then this is taken off
  /// Row of the sequence at which the first of fewer queries than keys stands; last_rows; or no_rows, of any number of
  /// queries: every query sees every key (dense attention, not causal, one document).
  Index query_offset = last_rows;
};

/// How it is computed, in the words of the run file (docs/run-file.md).
struct Options {
  std::string strategy = "auto";   ///< a name of `annulus list`; on one rank all are the same
  std::string partition = "auto";  ///< contiguous, zigzag, block_cyclic, documents
  std::string precision = "auto";  ///< of sums, or of products; names and auto as in the run file
  bool reproducible = false;       ///< the same bits for every number of ranks
  bool gradients = false;          ///< attention_backward() comes after attention()
  bool entropy = false;            ///< statistics of the probabilities: see Statistics in library/passes.hpp
  bool received = false;
  Index top_keys = 0;
  Index block_size = 0;   ///< rows, of block_cyclic; 0: chosen
  int ulysses_ranks = 0;  ///< ranks of a group, of hybrid; 0: all
};

/// Rows that a rank holds, in the order in which its tensors store them.
struct Rows {
  std::vector<Interval> intervals = {};
  Index count() const;
};

namespace library {
struct MadePlan;
}

/// The same on every rank that makes it from the same arguments; to make it calls nothing of MPI. Copies share it.
/// Worked example, 2 ranks of 131,072 rows each:
///   Plan plan({.sequence = 262144, .heads = 8, .kv_heads = 2, .head_dim = 64},
///             {.segments = {2048, all}, .dilations = {1, 8}, .causal = true}, 2, {.gradients = true});
class Plan {
 public:
  /// Throws Error(usage) that names the argument, its value and what was expected.
  Plan(const Shape& shape, const Pattern& pattern, int ranks = 1, const Options& options = {});
  Plan(const Shape& shape, const Pattern& pattern, int ranks, const char* strategy);

  const Shape& shape() const;
  int ranks() const;
  /// What was taken, and why: "ring", "contiguous", "ring, contiguous: predicted 0.1 s, next ...".
  const std::string& strategy() const;
  const std::string& partition() const;
  const std::string& reason() const;

  /// Rows of `rank` of the sequence, of k and v; throws Error(usage) where there is no such rank. And its rows of q, of
  /// out and of what lies like them, counted from the first query: the same where there are as many.
  Rows rows(int rank) const;
  Rows query_rows(int rank) const;
  /// Kept (query, key, head) triples of a rank's queries, which say what its share of the work is: 4 D flops each.
  double kept(int rank) const;
  /// Bytes that a rank receives and sends in the forward pass, or in the backward one.
  Index received(int rank, bool backward = false) const;
  Index sent(int rank, bool backward = false) const;
  /// Peak bytes of tensors and buffers of a rank, its inputs and results included.
  Index memory(int rank, bool backward = false) const;

  const library::MadePlan& made() const { return *made_; }

 private:
  std::shared_ptr<const library::MadePlan> made_;
};

}  // namespace annulus
