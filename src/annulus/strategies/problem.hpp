// What a strategy is given: the problem, and this rank's tensors.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/row_block.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/pattern/granules.hpp"
#include "annulus/pattern/plan.hpp"

namespace annulus::strategies {

using core::Index;

/// Query heads of a problem that a rank works on.
struct HeadShare {
  Index heads = 1;     ///< of the whole problem
  Index kv_heads = 1;  ///< of the whole problem
  core::Interval query;
};

/// Statistics of the probabilities P(x, p) of query row x and key row p that a run can return beside out and lse; per
/// query head.
///   entropy    -sum_p P ln P of row x, in nats, made by the forward pass
///   received   sum_x P of row p          made by a pass of their own over the keys, after the forward pass, which
///   top        rows p of largest P       takes the probabilities' normalizers from it
struct Statistics {
  bool entropy = false;
  bool received = false;
  Index top_keys = 0;  ///< rows listed of every row; 0: none asked for

  bool need_pass() const { return received || top_keys > 0; }
  bool any() const { return entropy || need_pass(); }
};

/// What the sums are that ranks add up for each other's key rows and that travel home.
///   gradients  dk and dv: D and Dv numbers of the problem's precision, per row and key/value head
///   received   one float64 number for each query head that may read the key/value head: Layout::group() of them
enum class Sums { gradients, received };

/// One attention problem, the same on every rank.
struct Problem {
  core::Shape shape;
  core::DType type = core::DType::float32;
  core::Precision precision = core::Precision::float32;
  double scale = 1;
  pattern::Pattern pattern;
  pattern::Documents documents;
  /// Rows of the sequence at which the queries stand; empty: at all of them. See place_queries().
  std::optional<core::Interval> queries;
  bool all_queries = false;  ///< every rank works on all of them, with its own keys: queries/query_exchange.hpp
  kernels::Backend backend = kernels::Backend::host;
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  Index block_size = 0;                             ///< rows, of block_cyclic; 0: auto
  int ulysses_ranks = 0;                            ///< ranks of a group, of hybrid; 0: all ranks are one group
  std::optional<HeadShare> share;                   ///< where the heads of `shape` come from; empty: they are all
  bool reproducible = false;                        ///< the same bits for every number of ranks: see rounds_of()
  Index granule = 1;                                ///< comb rows added in one step then: see make_reproducible()
  bool gradients = false;  ///< backward() comes after forward(), too: see why_not_reproducible()
  Statistics statistics = {};
  kernels::ScoreRule rule = {};                  ///< of scores; its slopes are those of all heads of the whole problem
  bool sink = false;                             ///< rows see one more key, whose score is in Tensors::sink
  Sums sums = Sums::gradients;                   ///< of the pass with sums that this is about
  core::Interval pairs{0, pattern::every_pair};  ///< of the pattern, to work on: those of a pass

  /// The rule for kernels, while this problem is there.
  kernels::CallRule call_rule() const { return {rule.any() ? &rule : nullptr, share ? share->query.begin : 0}; }

  /// Sums for each other's key rows are made, and for that the normalizers of the probabilities.
  bool has_sums() const { return gradients || statistics.need_pass(); }
  /// Their order decides bits of results: lists of top rows are the same in any order.
  bool has_ordered_sums() const { return gradients || statistics.received; }

  pattern::Layout layout() const {
    const core::Interval rows = queries.value_or(core::Interval{0, pattern::every_row});
    const Index keys = has_rows_of_queries() ? shape.sequence : pattern::every_row;
    if (share) return {pattern, documents, share->heads, share->kv_heads, share->query, pairs, granule, rows, keys};
    return {pattern, documents, shape.heads, shape.kv_heads, {0, pattern::every_head}, pairs, granule, rows, keys};
  }
  /// Rows of q and of what lies like it.
  Index query_count() const { return queries ? queries->size() : shape.sequence; }
  /// The queries stand at rows that are no keys, after all of these.
  bool has_rows_of_queries() const { return queries && queries->begin >= shape.sequence; }
  /// Documents of the rows that are keys.
  pattern::Documents key_documents() const {
    return has_rows_of_queries() ? pattern::Documents{0, shape.sequence} : documents;
  }
  /// Where rows may be cut; of this problem while it is there.
  pattern::CutGrid grid() const { return {pattern, documents, granule}; }
  /// Which of a rank's own keys (or of all keys, where they are at hand at once) come first, and whether the rest come
  /// last: see rounds_of().
  core::Band first_part() const { return reproducible ? core::Band::upto : core::Band::all; }
  bool has_last_part() const { return reproducible && !pattern.causal; }
  /// Bytes of one row of q, of out (and dout), and of lse; for one batch entry.
  Index query_row_bytes() const { return shape.heads * head_row_bytes(); }
  Index out_row_bytes() const { return shape.heads * head_value_bytes(); }
  /// Bytes of one row of one head of q or k, and of v, out or dout.
  Index head_row_bytes() const { return shape.head_dim * Index(core::bytes_of(type)); }
  Index head_value_bytes() const { return shape.dim_of_values() * Index(core::bytes_of(type)); }
  /// K and V travel together, as arrays (B, rows, Hkv, numbers): one of K and one of V, numbers = D. Where values have
  /// another head size, a row of V follows its row of K in one array, numbers = D + Dv; sums of dK and dV likewise.
  /// Worked example: B = 2, D = 192, Dv = 128: two entries of rows of 320 numbers, where D = Dv = 192 has four of 192.
  Index kv_parts() const { return (shape.has_value_dim() ? 1 : 2) * shape.batch; }
  Index kv_numbers() const { return shape.has_value_dim() ? shape.head_dim + shape.value_dim : shape.head_dim; }
  /// Bytes of one row of one key/value head there, in which is counted what travels, and of one of all.
  Index head_kv_bytes() const { return kv_numbers() * Index(core::bytes_of(type)); }
  Index kv_row_bytes() const { return shape.kv_heads * head_kv_bytes(); }
  Index lse_row_bytes() const { return shape.heads * Index(core::bytes_of(core::lse_type(type))); }
  /// Bytes of one row of normalizers, of all heads and of one.
  Index normalizer_row_bytes() const { return shape.heads * head_normalizer_bytes(); }
  Index head_normalizer_bytes() const { return kernels::normalizer_numbers * Index(core::bytes_of(precision)); }
  /// The same of all that forward() reads, q, k and v, and of all that it makes, out, lse, entropy and
  /// normalizers.
  Index input_row_bytes() const { return query_row_bytes() + kv_block_bytes(1) / shape.batch; }
  Index output_row_bytes() const {
    return out_row_bytes() + lse_row_bytes() * (statistics.entropy ? 2 : 1) + (has_sums() ? normalizer_row_bytes() : 0);
  }
  /// Bytes of K and V of so many rows of all batch entries.
  Index kv_block_bytes(Index rows) const { return kv_parts() * rows * kv_row_bytes(); }
  /// Type of the numbers in which a rank adds up, and bytes of a row of one head of the sums that travel.
  core::DType sum_type() const { return core::type_of(precision); }
  /// Sums and results have the same type, so that they may be the same memory.
  bool is_in_place() const { return sum_type() == type; }
  Index head_row_sum_bytes() const { return sum_numbers() * Index(core::bytes_of(sum_precision())); }
  /// Bits of dK and dV must not depend on where rows are cut, so that what a block of query rows has given so far goes
  /// from rank to rank beside the sums (kernels::GradientViews).
  bool has_begun_sums() const { return sums == Sums::gradients && reproducible && granule == 1; }
  /// What travels home beside the keys: arrays of so many rows of heads, of so many numbers.
  Index sum_parts() const { return sums == Sums::gradients ? (has_begun_sums() ? 2 : 1) * kv_parts() : shape.batch; }
  Index sum_numbers() const { return sums == Sums::gradients ? kv_numbers() : slots(); }
  /// Bytes of a row of one head of the sums of dQ.
  Index head_query_sum_bytes() const { return shape.head_dim * Index(core::bytes_of(precision)); }
  core::Precision sum_precision() const { return sums == Sums::gradients ? precision : core::Precision::float64; }
  /// Numbers that a row of a key/value head receives, one for each query head that may read it.
  Index slots() const { return share ? share->heads / share->kv_heads : shape.group(); }
};

/// Makes `count` rows the queries of a problem of which nothing but the documents depends on them yet: those from row
/// `offset` on, or, of dense attention without row numbers, any: the first ones, or where there are more than keys,
/// rows after all keys. Worked example: S = 4, three queries at row 1 are the rows [1, 4); six without row numbers are
/// the rows [4, 10) of a document of ten rows, whose rows [0, 4) are the keys.
void place_queries(Problem& problem, std::optional<Index> offset, Index count);

/// Rows of every rank's queries, those of q in the order in which it stores them, where `keys` are its rows of k and v:
/// those of the keys' rows that are queries; of rows after all keys an interval as long as its share of the keys. Where
/// Problem::all_queries says so, all queries.
pattern::Partition query_rows(const Problem& problem, const pattern::Partition& keys);

/// The shape of query heads `query` and of the K/V heads that they read.
core::Shape narrowed(core::Shape whole, core::Interval query);

/// Where query heads `query` of a problem, which may be narrowed itself, stand in the whole problem.
HeadShare share_of(const Problem& problem, core::Interval query);

/// The problem of a rank that works on query heads `query` only: a shape of these heads, while offsets remain those of
/// the whole problem. Copies the documents, too: where many ranks are looked at, their shapes are enough.
Problem narrowed(const Problem& whole, core::Interval query);

/// The rounds in which a problem is computed: one for all pairs; if it is to be reproducible, one for each pair.
///
/// Sums of floating-point numbers depend on their order, so a reproducible problem fixes it. Row x of a comb of N rows
/// adds keys x, x - 1, ..., 0, then N - 1, ..., x + 1, pair after pair, all to one running softmax. The kernel takes
/// the keys of a call from the last to the first, so a rank gives it of its own rows the keys up to the query, then the
/// rows of rank - 1, rank - 2, ... round to rank + 1, then of its own rows those after the query. Worked example: 12
/// rows on 3 ranks, row 5 on rank 1 sees 5 4 | 3 2 1 0 | 11 10 9 8 | 7 6.
/// Gradients: gradients/ordered_sums.hpp.
std::vector<Problem> rounds_of(const Problem& problem);

/// Makes a problem reproducible, or not. Where matrix units do the work, granule by granule (kernels::State), rows are
/// cut between granules, whatever the number of ranks (pattern/granules.hpp). Worked example: 320 rows on 2 ranks, row
/// 200 of rank 1 (rows 160 ... 319) sees, sixteen at a time, 200 ... 192, 191 ... 160 | 159 ... 0 | 319 ... 208,
/// 207 ... 201.
/// `has_units`: whether the back end has such matrix units for the problem (kernels::why_no_granules()); ranks have to
/// agree.
void make_reproducible(Problem& problem, bool wanted, bool has_units);
/// Why its results are not made granule by granule where there are such units; empty: they are.
std::string why_not_by_granules(const Problem& problem);

/// Tensors (B, rows, heads, D or Dv) that lie as their owner likes, these numbers next to each other; no data: not
/// lent. They are read where they lie, in place of a buffer of the same name. k and v, which cannot travel as one
/// message then, only where no other rank reads them.
struct LentTensors {
  core::TensorView q, k, v, out, dout, dlse;
};

/// This rank's rows of the tensors, in the default execution space's memory and in the order of its StoredRows: of
/// queries (query_rows()) for q and what lies like it, of keys for k, v, their gradients and `received`. What a pass
/// makes it writes into memory that is there where that is borrowed and large enough, and makes buffers else.
struct Tensors {
  core::Buffer q;    ///< (B, rows, H, D)
  core::Buffer kv;   ///< (2, B, rows, Hkv, D), K then V, or (B, rows, Hkv, D + Dv): kv_parts(); see kv_views()
  core::Buffer out;  ///< (B, rows, H, Dv), made by forward(), read by backward()
  core::Buffer lse;  ///< (B, rows, H), made by forward()
  /// (B, rows, H, 2) of the problem's precision (kernels/normalizer.hpp), made by forward() where Problem::gradients
  /// says that backward() will read them
  core::Buffer normalizers = {};

  core::Buffer entropy = {};      ///< (B, rows, H) in the type of lse, made by forward() where it is asked for
  core::Buffer received = {};     ///< (B, rows, H) float64, made by the statistics' pass
  core::Buffer top_rows = {};     ///< (B, rows, H, top_keys) int64, global rows; -1: none
  core::Buffer top_weights = {};  ///< (B, rows, H, top_keys) in the type of lse; 0 where there is none

  /// Scores (H) of the keys of kernels/sink.hpp, where Problem::sink says that there are such; read by forward() and
  /// backward().
  std::vector<double> sink = {};
  /// Their gradients as exact sums (H, kernels::exact_words) over all rows of all ranks, made by backward(); of a block
  /// of rows in a store, over those.
  std::vector<std::int64_t> sink_sums = {};

  core::Buffer dout = {};   ///< (B, rows, H, Dv), read by backward()
  core::Buffer delta = {};  ///< (B, rows, H) of the problem's precision, dout . out - dlse; there during backward()
  core::Buffer dlse = {};   ///< (B, rows, H) in the type of lse, read by backward(); no bytes: zeros
  core::Buffer dq = {};     ///< (B, rows, H, D), made by backward()
  core::Buffer dkv = {};    ///< dK (B, rows, Hkv, D), then dV (B, rows, Hkv, Dv); made by backward()
  /// The two: parts of dkv, or a caller's memory, which is filled in place of dkv where no other rank works
  /// on the rows.
  core::Buffer dk = {}, dv = {};

  LentTensors lent = {};
  std::function<void()> poll = {};  ///< called now and then while kernels work; what it throws ends the pass
};

/// `name` as a buffer of so many bytes: what is there where that is borrowed and of that size, else new memory.
core::Buffer made(const core::Buffer& there, const std::string& name, Index bytes);

/// K and V of `held` rows of all heads, or of one, where Problem::kv_parts() says that they are.
std::array<core::TensorView, 2> kv_views(const Problem& problem, void* data, Index held, bool of_one_head = false);

/// Bytes of dK of so many rows: dV follows in Tensors::dkv.
Index dk_bytes(const Problem& problem, Index rows);

/// A (kv_parts(), held, unit_bytes) array of K and V rows as a message block with all its rows selected.
comm::RowBlock kv_block(const Problem& problem, void* data, Index held, Index unit_bytes);

/// Which rank holds which rows in strategies that spread them: the problem's partition, or where that is `auto` the
/// first of contiguous, documents and zigzag whose busiest rank has at most 1.05 times the work of the best one's.
pattern::Partition distributed_partition(const Problem& problem, int ranks);

/// Whether a problem that leaves its partition open is planned with this kind, too: not with `documents` where there is
/// one document, which that cuts like zigzag or contiguous, nor with a zigzag of millions of intervals.
bool is_compared(const Problem& problem, pattern::PartitionKind kind, int ranks);

/// The same for strategies that get K and V rank after rank: of a reproducible problem every document's rows follow one
/// another from rank to rank.
pattern::Partition ordered_partition(Problem problem, int ranks);
/// Why the problem's own partition keeps them from being reproducible; empty: it does not.
std::string why_out_of_order(const Problem& problem, int ranks);

/// The same for strategies whose rows may go from part to part.
pattern::Partition parted_partition(Problem problem, int ranks);
std::string why_no_ordered_parts(const Problem& problem, int ranks);
/// Parts of a partition in whose order keys and sums can go (pattern/parts.hpp); none: they cannot. Without causality
/// a part would need the keys after its own, too, which come round from the last part: only ranks in order bring them.
std::optional<pattern::Partition> ordered_parts(const Problem& problem, const pattern::Partition& partition);

/// Which kind a partition is of, that a strategy has made where it may choose.
pattern::PartitionKind kind_of(const Problem& problem, const pattern::Partition& partition);

/// Called on every rank as work proceeds, with the share of this rank's kept triples that are done (0 ... 1) and a word
/// on the scope ("hop 2 of 3").
using Progress = std::function<void(double share, const std::string& scope)>;

}  // namespace annulus::strategies
