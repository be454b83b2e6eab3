// The local half of every strategy: this rank's queries, their running softmax, and the keys as they come.
#pragma once

#include <array>

#include "annulus/strategies/prediction.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// Rows that a rank has: of queries, and of keys.
struct RowCounts {
  Index queries = 0;
  Index keys = 0;

  RowCounts(Index both) : RowCounts(both, both) {}
  RowCounts(Index queries, Index keys) : queries(queries), keys(keys) {}
};

/// K and V rows in hand, raw or packed (pattern/key_rows.hpp): a (Problem::kv_parts(), held, unit) array, where a
/// stored row is Hkv * kv_numbers() numbers (raw) or those of one head (packed).
struct KeyBlock {
  void* data = nullptr;
  Index held = 0;
  pattern::KeyRows rows;
  std::array<core::TensorView, 2> lent{};  ///< K and V where no array holds them (LentTensors)

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  /// The block as the kernel sees K (which = 0) or V (which = 1).
  core::TensorView view(const Problem& problem, Index which) const;
};

/// The rank's own K and V.
KeyBlock own_block(const Tensors& tensors, const pattern::StoredRows& rows);

/// How a rank's work is cut into blocks: batch entries first, since they share no keys, and where they are few the rows
/// of each. Worked example: 2 entries of 512 rows in 16 blocks: entry 0 in 8 blocks of 64 rows, then entry 1.
struct QueryBlocks {
  Index entries = 1;
  Index rows = 1;

  Index count() const { return entries * rows; }
};

/// One of them: batch entries, and of each the stored rows from `first` on, of `held` that the tensors have.
struct QueryRange {
  core::Interval entries;
  Index first = 0;
  Index held = 0;

  bool is_first() const { return entries.begin == 0 && first == 0; }
};

class Computation {
 public:
  /// Queries are tensors.q, whose rows are `queries`. Their running softmaxes start here, and with them whatever keys
  /// are filled in for them. `expected` is the number of kept triples all calls of add() will come to; it only scales
  /// the progress.
  Computation(const Problem& problem, const pattern::StoredRows& queries, Tensors& tensors, core::Count expected,
              const Progress& progress);
  /// The same for a block of a rank's work, whose rows are `queries`.
  Computation(const Problem& problem, const pattern::StoredRows& queries, const QueryRange& block, Tensors& tensors,
              core::Count expected, const Progress& progress);

  /// Begins one of rounds_of(problem); the running softmaxes go on from round to round.
  void begin(const Problem& pass);
  /// Adds what `part` of the block's keys gives the queries, or some of them; `poll` keeps messages moving meanwhile.
  void add(const KeyBlock& block, const pattern::StoredRows& queries, core::Band part, const std::string& scope,
           core::HopMetrics& metrics, const std::function<void()>& poll = {});
  /// Makes tensors.out, lse and normalizers and frees the running softmax; blocks fill in what the first one made.
  /// Where its numbers are of the type of out, they have been in tensors.out all the time.
  void finish(core::HopMetrics& metrics);

  /// Hands out the running softmaxes, in place of finish(): those of all queries, of the rank's own keys
  /// (Problem::all_queries).
  kernels::State take_states();
  /// Adds what the keys of so many ranks gave the queries (kernels/merge.hpp), in place of calls of add().
  void merge(const kernels::State& of_ranks, Index ranks, core::HopMetrics& metrics);

 private:
  /// The block's part of a (B, held, H, numbers) tensor.
  core::TensorView view(const core::Buffer& tensor, core::DType type, Index numbers) const;
  core::TensorView queries_view() const;
  /// Memory for the accumulator of the result.
  core::Buffer accumulator();
  kernels::State empty_states(core::Buffer acc) const;

  const Problem& problem_;
  const pattern::StoredRows& queries_;
  const QueryRange block_;
  const core::Shape shape_;  // of the block's batch entries
  Tensors& tensors_;
  const Progress progress_;  // of its own: callers may give one made on the spot
  kernels::State state_;
  pattern::Layout layout_;  // of the pass
  std::string pass_;        // its name, in front of places
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// A pass's name in front of a place: "pair 2 of 3, "; empty where all pairs are one pass.
std::string pass_name(const Problem& problem, const pattern::Layout& pass);

/// `poll` for a kernel: the watchdog hears of it, too, and the caller (Tensors::poll).
std::function<void()> watched(const std::function<void()>& poll, const std::function<void()>& callers);

/// Shape that bounds the heads of one work item: query heads of one K/V head, and no more than there are.
core::Shape item_shape(const Problem& problem);

/// Bytes that the kernel keeps for its panels once it has computed `rows` rows.
Index kernel_memory(const Problem& problem, Index rows);

/// Blocks in which a rank's rows are worked on where all keys are at hand: so many that the sums of a block are a few
/// percent of the tensors. Where sums stand in the results' memory, batch entries alone are blocks, so that results are
/// made of sums which are still in a cache.
QueryBlocks query_blocks(const Problem& problem, Index rows);

/// Peak bytes of a forward pass that works on `blocks` of its rows one after another, with `extra` bytes of K/V
/// buffers.
Index forward_memory(const Problem& problem, const RowCounts& rows, const QueryBlocks& blocks, Index extra);

/// Peak bytes of a rank that holds `rows` rows, `extra` bytes of K/V buffers while it
/// computes, and makes out and lse at the end.
Index local_memory(const Problem& problem, const RowCounts& rows, Index extra);

/// Kept triples between queries and keys, batch entries included.
core::Count kept_between(const Problem& problem, const pattern::StoredRows& queries, const pattern::KeyRows& keys);
/// The same of queries and all keys of the sequence, whoever holds them; by a closed form.
core::Count kept_of(const Problem& problem, const pattern::StoredRows& queries);

}  // namespace annulus::strategies
