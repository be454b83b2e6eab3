// Defines what a strategy gets: the problem, and this rank's tensors.
#pragma once

#include <algorithm>
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

/// The query heads that a rank works on, out of all heads of the problem.
struct HeadShare {
  Index heads = 1;       ///< query heads of the whole problem
  Index kv_heads = 1;    ///< key/value heads of the whole problem
  core::Interval query;  ///< the query heads that the rank works on
};

/// Statistics that a run can return besides out and lse, for each query head. P(x, p) is the probability that query row
/// x gives to key row p.
///   entropy    for row x, -sum_p P ln P in nats; made by the forward pass
///   received   for row p, sum_x P; made by the statistics pass, a separate pass over the keys after the forward pass
///   top        for row x, a list of the rows p with the largest P; also made by the statistics pass
struct Statistics {
  bool entropy = false;
  bool received = false;
  Index top_keys = 0;  ///< number of rows that each list has; 0: no lists

  bool need_pass() const { return received || top_keys > 0; }
  bool any() const { return entropy || need_pass(); }
};

/// Kinds of sums that a rank makes for key rows: for its own, and for rows of other ranks, to which the sums return.
///   gradients  dk and dv: D and Dv numbers in the problem's precision, for each row and key/value head
///   received   Layout::group() float64 numbers for each row and key/value head: one for each query head that may read
///              the key/value head
enum class Sums { gradients, received };

/// One attention problem; or the part of one that is computed at a time (`share`, `whole_batch`, `pairs`). The whole
/// problem is the same on every rank.
struct Problem {
  core::Shape shape;
  core::DType type = core::DType::float32;
  core::Precision precision = core::Precision::float32;
  double scale = 1;
  pattern::Pattern pattern;
  pattern::Documents documents;
  /// The rows that are queries, perhaps rows after all keys (place_queries()); empty: all rows of the sequence.
  std::optional<core::Interval> queries;
  /// Rows of k that are keys, without padding: one interval for each batch entry, or one interval for all entries;
  /// empty: all rows. If there are intervals, queries have no row numbers. If each entry has an interval, callers
  /// compute one entry at a time, each with a problem of its own (narrowed() in slices.hpp).
  std::vector<core::Interval> key_ranges = {};
  bool all_queries = false;  ///< every rank computes all queries with its own keys (queries/query_exchange.hpp)
  kernels::Backend backend = kernels::Backend::host;
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  Index block_size = 0;                             ///< rows of a block, for block_cyclic and stream; 0: auto
  int ulysses_ranks = 0;                            ///< for hybrid: ranks in a group; 0: all ranks are one group
  std::optional<HeadShare> share;                   ///< the heads that `shape` has; empty: all heads
  bool reproducible = false;                        ///< same bits for every number of ranks: see rounds_of()
  Index granule = 1;                                ///< comb rows in a granule (make_reproducible()); 1: no granules
  Index whole_batch = 0;   ///< batch entries of the rank's problem if this is one of backward_blocks(); otherwise 0
  bool gradients = false;  ///< a backward pass follows the forward pass
  Statistics statistics = {};
  kernels::ScoreRule rule = {};                  ///< cap and bias of scores; has the slopes of all heads
  bool sink = false;                             ///< rows see one more key, whose score is in Tensors::sink
  Sums sums = Sums::gradients;                   ///< which sums for key rows a pass makes, if any
  core::Interval pairs{0, pattern::every_pair};  ///< pairs of the pattern to compute; see rounds_of()

  /// Returns the rule in the form that kernels take; valid while this problem exists.
  kernels::CallRule call_rule() const { return {rule.any() ? &rule : nullptr, share ? share->query.begin : 0}; }

  /// True if a pass after the forward pass makes sums for key rows. Such a pass needs the normalizers of probabilities.
  bool has_sums() const { return gradients || statistics.need_pass(); }
  /// True if bits of results depend on the order in which these sums are added up (lists of top rows do not).
  bool has_ordered_sums() const { return gradients || statistics.received; }

  pattern::Layout layout() const {
    const core::Interval rows = queries.value_or(core::Interval{0, pattern::every_row});
    const core::Interval keys = existing_keys();
    if (share) return {pattern, documents, share->heads, share->kv_heads, share->query, pairs, granule, rows, keys};
    return {pattern, documents, shape.heads, shape.kv_heads, {0, pattern::every_head}, pairs, granule, rows, keys};
  }
  /// The rows from the first to the last key of any batch entry. If all entries have the same keys, these are the keys.
  core::Interval existing_keys() const {
    if (key_ranges.empty()) return {0, has_queries_after_all_keys() ? shape.sequence : pattern::every_row};
    core::Interval all = key_ranges.front();
    for (const core::Interval& one : key_ranges) all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
    return all;
  }
  /// True if key_ranges has an interval for each batch entry. Then no two entries can be computed together.
  bool has_own_keys() const { return key_ranges.size() > 1; }
  /// Number of rows of q, and of every tensor that has a row for each query.
  Index query_count() const { return queries ? queries->size() : shape.sequence; }
  /// True if the queries are rows after all keys, instead of rows that are also keys.
  bool has_queries_after_all_keys() const { return queries && queries->begin >= shape.sequence; }
  pattern::Documents key_documents() const {
    return has_queries_after_all_keys() ? pattern::Documents{0, shape.sequence} : documents;
  }
  /// Returns where rows may be cut; valid while this problem exists.
  pattern::CutGrid grid() const { return {pattern, documents, granule}; }
  /// first_part(): which of its own keys a rank adds in the first step. has_last_part(): true if the rank adds its
  /// other own keys after the last step. See rounds_of(). If one block has all keys, both mean all keys.
  core::Band first_part() const { return reproducible ? core::Band::upto : core::Band::all; }
  bool has_last_part() const { return reproducible && !pattern.causal; }
  /// Bytes of one row with all heads, of one batch entry: a row of q; a row of out (or dout).
  Index query_row_bytes() const { return shape.heads * head_row_bytes(); }
  Index out_row_bytes() const { return shape.heads * head_value_bytes(); }
  /// Bytes of one row of one head: a row of q or k; a row of v, out or dout.
  Index head_row_bytes() const { return shape.head_dim * Index(core::bytes_of(type)); }
  Index head_value_bytes() const { return shape.dim_of_values() * Index(core::bytes_of(type)); }
  /// K and V travel together as arrays (B, rows, Hkv, numbers): usually one array of K and one of V, with numbers = D.
  /// If Dv is not D, K and V share one array, in which each row of V follows its row of K, and numbers = D + Dv. Sums
  /// of dK and dV have the same form. A part is one batch entry of one array.
  /// Worked example, B = 2, D = 192: kv_parts() is 4, kv_numbers() 192; with Dv = 128 they are 2 and 320.
  Index kv_parts() const { return (shape.has_value_dim() ? 1 : 2) * shape.batch; }
  Index kv_numbers() const { return shape.has_value_dim() ? shape.head_dim + shape.value_dim : shape.head_dim; }
  /// Bytes of one row of such an array: of one head (packed rows are counted in rows of one head); of all heads.
  Index head_kv_bytes() const { return kv_numbers() * Index(core::bytes_of(type)); }
  Index kv_row_bytes() const { return shape.kv_heads * head_kv_bytes(); }
  /// Bytes of one row: of lse, all heads; of normalizers, all heads; of normalizers, one head.
  Index lse_row_bytes() const { return shape.heads * Index(core::bytes_of(core::lse_type(type))); }
  Index normalizer_row_bytes() const { return shape.heads * head_normalizer_bytes(); }
  Index head_normalizer_bytes() const { return kernels::normalizer_numbers * Index(core::bytes_of(precision)); }
  /// Bytes of one row of all tensors that forward() reads (q, k and v); of all that it makes (out, lse, entropy and
  /// normalizers).
  Index input_row_bytes() const { return query_row_bytes() + kv_block_bytes(1) / shape.batch; }
  Index output_row_bytes() const {
    return out_row_bytes() + lse_row_bytes() * (statistics.entropy ? 2 : 1) + (has_sums() ? normalizer_row_bytes() : 0);
  }
  /// Bytes of K and V of this many rows of all batch entries.
  Index kv_block_bytes(Index rows) const { return kv_parts() * rows * kv_row_bytes(); }
  /// Type of the numbers in which a rank adds up gradients and running softmaxes.
  core::DType sum_type() const { return core::type_of(precision); }
  /// True if sums and results have the same type, so that they may be the same memory.
  bool is_in_place() const { return sum_type() == type; }
  /// True if rows may be cut anywhere, but bits of dK and dV must not depend on the cuts. Then the unfinished sums of
  /// the current block of query rows (kernels::GradientViews) travel from rank to rank, together with the totals.
  bool has_query_block_sums() const { return sums == Sums::gradients && reproducible && granule == 1; }
  /// The sums for key rows: sum_parts() counts their parts, as kv_parts() does for K and V. head_row_sum_bytes() and
  /// sum_numbers() are for a row of one head.
  Index sum_parts() const {
    return sums == Sums::gradients ? (has_query_block_sums() ? 2 : 1) * kv_parts() : shape.batch;
  }
  Index head_row_sum_bytes() const { return sum_numbers() * Index(core::bytes_of(sum_precision())); }
  Index sum_numbers() const { return sums == Sums::gradients ? kv_numbers() : slots(); }
  /// Bytes that the sums of dQ take for one row of one head.
  Index head_query_sum_bytes() const { return shape.head_dim * Index(core::bytes_of(precision)); }
  core::Precision sum_precision() const { return sums == Sums::gradients ? precision : core::Precision::float64; }
  /// Numbers of Sums::received for a row of a key/value head: one for each query head that may read this head.
  Index slots() const { return share ? share->heads / share->kv_heads : shape.group(); }
};

/// Sets the queries of a problem: `count` rows, from row `offset` on. Without an offset (dense attention only) queries
/// have no row numbers. They then count as the first rows or, if there are more queries than keys, as rows after all
/// keys. Call this after the documents are set, and before anything reads the queries. Worked example, S = 4: three
/// queries with offset 1 are the rows [1, 4); six without offset are the rows [4, 10) of a document of ten rows.
void place_queries(Problem& problem, std::optional<Index> offset, Index count);

/// Returns the queries of every rank, as rows in the order in which q stores them; `keys` are the ranks' rows of k and
/// v. Usually a rank has the queries that are among its key rows. If all queries are after the keys, they are divided
/// in proportion to the ranks' numbers of keys. If Problem::all_queries is set, every rank has all queries.
pattern::Partition query_rows(const Problem& problem, const pattern::Partition& keys);

/// Returns the shape with only the query heads `query` and the K/V heads that these read.
core::Shape narrowed(core::Shape whole, core::Interval query);

/// Returns the query heads `query` of `problem` as heads of the whole problem; `problem` may be narrowed already.
HeadShare share_of(const Problem& problem, core::Interval query);

/// Returns the problem of a rank that works only on the query heads `query`: its shape has only these heads, and
/// Problem::share says which heads of the whole problem they are. This copies the documents; for many ranks, narrow
/// only the shapes.
Problem narrowed(const Problem& whole, core::Interval query);

/// Returns the rounds in which a problem is computed: one for each pair if it is reproducible, otherwise one for all
/// pairs.
///
/// Sums of floating-point numbers depend on the order of the terms, so a reproducible problem fixes this order. Row x
/// of a comb of N rows adds the keys x, x - 1, ..., 0, then, if not causal, N - 1, ..., x + 1. It does so pair after
/// pair, all in one running softmax. In one call the kernel takes keys from the last to the first. So a rank calls the
/// kernel for its own keys up to the query, then for the rows of rank - 1, rank - 2, ..., round the ring to rank + 1,
/// then for its own keys after the query.
/// Worked example, not causal: 12 rows on 3 ranks, row 5 on rank 1 adds the keys 5 4 | 3 2 1 0 | 11 10 9 8 | 7 6.
/// For gradients see gradients/ordered_sums.hpp.
std::vector<Problem> rounds_of(const Problem& problem);

/// Sets Problem::reproducible to `wanted`, and Problem::granule. Matrix units add the keys of a granule together
/// (kernels::State). If matrix units are used, rows are cut only between granules, for any number of ranks
/// (pattern/granules.hpp).
/// Worked example, not causal, granules of 16: 320 rows on 2 ranks, row 200 on rank 1 (rows 160 ... 319) adds the keys
/// 200 ... 192, 191 ... 176, 175 ... 160 | 159 ... 144, and so on to 0 | 319 ... 304, and so on to 208, 207 ... 201.
/// `has_units`: whether the back end has such matrix units for the problem (kernels::why_no_granules()). All ranks must
/// pass the same value.
void make_reproducible(Problem& problem, bool wanted, bool has_units);
/// Returns why results cannot be made granule by granule, even by a back end with such units; empty if they can.
std::string why_not_by_granules(const Problem& problem);

/// Tensors (B, rows, heads, numbers) that stay in the caller's memory and are read there. The buffers of the same names
/// in Tensors (for k and v: `kv`) are then empty. A view without data: the tensor is in its buffer. The numbers of a
/// head must be contiguous. k and v are lent only if no other rank reads them, because lent rows could not travel as
/// one message.
struct LentTensors {
  core::TensorView q, k, v, out, dout, dlse;
};

/// This rank's rows of the tensors, in memory of the default execution space, in the order of the rank's StoredRows. k,
/// v, their gradients and `received` have key rows; all other tensors have query rows (query_rows()). If the buffer of
/// a result is borrowed and has exactly the right size, a pass may write the result into it; otherwise the pass makes a
/// buffer.
struct Tensors {
  core::Buffer q;    ///< (B, rows, H, D)
  core::Buffer kv;   ///< (2, B, rows, Hkv, D), K then V, or (B, rows, Hkv, D + Dv): kv_parts(); see kv_views()
  core::Buffer out;  ///< (B, rows, H, Dv), made by forward(), read by backward()
  core::Buffer lse;  ///< (B, rows, H), made by forward()
  /// (B, rows, H, 2) of the problem's precision (kernels/normalizer.hpp), made by forward() if has_sums(), read by the
  /// backward pass and by the pass that makes statistics
  core::Buffer normalizers = {};

  core::Buffer entropy = {};      ///< (B, rows, H) in the type of lse, made by forward() if the problem asks for it
  core::Buffer received = {};     ///< (B, rows, H) float64, made by the pass that makes statistics
  core::Buffer top_rows = {};     ///< (B, rows, H, top_keys) int64, global rows; -1: no more rows
  core::Buffer top_weights = {};  ///< (B, rows, H, top_keys) in the type of lse; 0 where top_rows has -1

  /// Scores (H) of the extra keys of kernels/sink.hpp, if Problem::sink is set; read by forward() and backward()
  std::vector<double> sink = {};
  /// The gradients of these scores as exact sums (H, kernels::exact_words), made by backward(): over all rows of all
  /// ranks or, if one block of rows of a store is computed, over the rows of the block
  std::vector<std::int64_t> sink_sums = {};

  core::Buffer dout = {};   ///< (B, rows, H, Dv), read by backward()
  core::Buffer delta = {};  ///< (B, rows, H) in the problem's precision, dout . out - dlse; only during backward()
  core::Buffer dlse = {};   ///< (B, rows, H) in the type of lse, read by backward(); empty: zeros
  core::Buffer dq = {};     ///< (B, rows, H, D), made by backward()
  core::Buffer dkv = {};    ///< dK (B, rows, Hkv, D), then dV (B, rows, Hkv, Dv); made by backward()
  /// Memory of the caller, which backward() fills instead of dkv if no other rank works on this rank's rows. If the
  /// caller gave none, dk and dv may point to the two parts of dkv while backward() runs
  core::Buffer dk = {}, dv = {};

  LentTensors lent = {};
  std::function<void()> poll = {};  ///< called now and then while kernels work; an exception from it ends the pass
};

/// Returns `bytes` bytes of memory named `name`: `callers` if it is borrowed and of this size, otherwise a new buffer.
core::Buffer made(const core::Buffer& callers, const std::string& name, Index bytes);

/// Returns views of K and V in an array of Problem::kv_parts() parts with `held` rows, of all heads or, for packed
/// rows, of one head.
std::array<core::TensorView, 2> kv_views(const Problem& problem, void* data, Index held, bool of_one_head = false);

/// Bytes of dK of this many rows. In Tensors::dkv, dV begins after these bytes.
Index dk_bytes(const Problem& problem, Index rows);

/// Returns a (kv_parts(), held, unit_bytes) array of K and V rows as a message block that sends all its rows.
comm::RowBlock kv_block(const Problem& problem, void* data, Index held, Index unit_bytes);

/// Returns which rank holds which rows, for strategies that spread rows. The partition is of the kind that the problem
/// names. If the problem names none (`auto`), we compare contiguous, documents and zigzag, in this order, by the work
/// of the busiest rank, and take the first kind that needs at most 1.05 times the least work.
pattern::Partition distributed_partition(const Problem& problem, int ranks);

/// False if plans and `auto` leave out this kind of partition for a problem. They leave out `documents` if there is
/// only one document, because `documents` would cut it like zigzag or contiguous. They leave out a zigzag of more than
/// about 16 million intervals. (`auto` never chooses block_cyclic, for another reason: planner/choose.cpp.)
bool is_compared(const Problem& problem, pattern::PartitionKind kind, int ranks);

/// Returns distributed_partition() for strategies that get K and V rank after rank. If the problem is reproducible and
/// names no partition, takes one in which the rows of every document follow one another from rank to rank.
pattern::Partition ordered_partition(Problem problem, int ranks);
/// Returns why such strategies are not reproducible with the problem's own partition; empty if they are.
std::string why_out_of_order(const Problem& problem, int ranks);

/// The two functions above for strategies that may get K and V part after part, in the order of ordered_parts().
pattern::Partition parted_partition(Problem problem, int ranks);
std::string why_no_ordered_parts(const Problem& problem, int ranks);
/// Returns the parts (pattern/parts.hpp) in whose order keys and sums can travel; empty if there are none. A rank can
/// have two parts only with a causal mask (otherwise a part's queries would also need the keys of later parts) and only
/// if all rows are queries.
std::optional<pattern::Partition> ordered_parts(const Problem& problem, const pattern::Partition& partition);

/// Returns the kind of a partition that a strategy has made: one of the kinds that is_compared() accepts, without
/// block_cyclic. Any other partition counts as contiguous.
pattern::PartitionKind kind_of(const Problem& problem, const pattern::Partition& partition);

/// Called on every rank as work proceeds, with the share of this rank's kept triples that is done (0 ... 1), and with a
/// text that says where the work is ("hop 2 of 3").
using Progress = std::function<void(double share, const std::string& scope)>;

}  // namespace annulus::strategies
