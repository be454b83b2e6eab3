// Adds keys, as they arrive, to the running softmaxes of this rank's queries. The forward passes of all strategies use
// this code.
#pragma once

#include <array>

#include "annulus/strategies/prediction.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// The numbers of query rows and of key rows that a rank has.
struct RowCounts {
  Index queries = 0;
  Index keys = 0;

  RowCounts(Index both) : RowCounts(both, both) {}
  RowCounts(Index queries, Index keys) : queries(queries), keys(keys) {}
};

/// Rows of K and V that are available on this rank, raw or packed (pattern/key_rows.hpp): an array of
/// Problem::kv_parts() parts with `held` stored rows each. A raw row has Hkv * kv_numbers() numbers, a packed row has
/// kv_numbers().
struct KeyBlock {
  void* data = nullptr;
  Index held = 0;
  pattern::KeyRows rows;
  std::array<core::TensorView, 2> lent{};  ///< K and V in the caller's memory (LentTensors); used if `data` is null

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  /// Returns the tensor in which the kernel sees K (which = 0) or V (which = 1).
  core::TensorView view(const Problem& problem, Index which) const;
};

/// Returns the rank's own K and V as a block.
KeyBlock own_block(const Tensors& tensors, const pattern::StoredRows& rows);

/// Says into how many blocks a rank's work is divided: by batch entries, which have no keys in common, and also by rows
/// if there are few entries. Worked example: {2, 8} divides 2 entries of 512 rows into 16 blocks: 8 blocks of 64 rows
/// of entry 0, then 8 blocks of entry 1.
struct QueryBlocks {
  Index entries = 1;
  Index rows = 1;

  Index count() const { return entries * rows; }
};

/// One of the blocks that QueryBlocks counts: rows of the batch entries `entries`, from row `first` on. The rank's
/// tensors have `held` rows of each entry.
struct QueryRange {
  core::Interval entries;
  Index first = 0;
  Index held = 0;

  bool is_first() const { return entries.begin == 0 && first == 0; }
};

class Computation {
 public:
  /// tensors.q has the queries, whose rows are `queries`. Starts their running softmaxes with the keys that the
  /// semantics torchscale fills in. `expected`: number of kept triples that all calls of add() will have together, in
  /// all blocks of the rank's work; only the reported progress depends on it.
  Computation(const Problem& problem, const pattern::StoredRows& queries, Tensors& tensors, core::Count expected,
              const Progress& progress);
  /// The same for one block of a rank's work; `queries` are the rows of the block.
  Computation(const Problem& problem, const pattern::StoredRows& queries, const QueryRange& block, Tensors& tensors,
              core::Count expected, const Progress& progress);

  /// Begins the next round of rounds_of(problem); the running softmaxes continue from round to round.
  void begin(const Problem& round);
  /// Adds the block's keys in the band `part` to the softmaxes of `queries`. Calls `poll` meanwhile to move messages.
  /// `where` names the step in texts for users ("hop 2 of 3").
  void add(const KeyBlock& block, const pattern::StoredRows& queries, core::Band part, const std::string& where,
           core::HopMetrics& metrics, const std::function<void()>& poll = {});
  /// Makes tensors.out, lse and, if wanted, normalizers and entropy, and frees the running softmaxes. The first block
  /// makes the buffers, each block fills in its rows. If Problem::is_in_place(), sums are made in tensors.out.
  void finish(core::HopMetrics& metrics);

  /// Called instead of finish(): returns the running softmaxes of all queries over this rank's own keys
  /// (Problem::all_queries).
  kernels::State take_states();
  /// Called instead of add(): merges the softmaxes that `ranks` ranks made for the queries (kernels/merge.hpp).
  void merge(const kernels::State& of_ranks, Index ranks, core::HopMetrics& metrics);

 private:
  /// Returns the block's part of a tensor (B, held, H, numbers).
  core::TensorView view(const core::Buffer& tensor, core::DType type, Index numbers) const;
  core::TensorView queries_view() const;
  core::Buffer accumulator();
  kernels::State empty_states(core::Buffer acc) const;

  const Problem& problem_;
  const pattern::StoredRows& queries_;
  const QueryRange block_;
  const core::Shape shape_;  // of the block's batch entries
  Tensors& tensors_;
  const Progress progress_;  // a copy: callers may pass a temporary
  kernels::State state_;
  pattern::Layout layout_;  // of the round
  std::string round_;       // name of the round, which add() puts before the name of a step
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// Returns the name of a round, for messages: "pair 2 of 3, "; empty if one round has all pairs.
std::string round_name(const Problem& problem, const pattern::Layout& round);

/// Returns a `poll` for kernels. It reports progress to the watchdog and calls `callers` (Tensors::poll) and `poll`, if
/// they are given.
std::function<void()> watched(const std::function<void()>& poll, const std::function<void()>& callers);

/// Returns the shape with the most heads that one work item can have: the query heads that read one K/V head or, if a
/// library takes all heads in one call (kernels::LibraryBackend), all heads.
core::Shape item_shape(const Problem& problem);

/// key_parts(): into how many parts kernels may divide the keys of a rank with `rows` query rows, so that few query
/// rows keep all threads busy. key_parts_bytes(): bytes that these parts take in a pass.
Index key_parts(const Problem& problem, Index rows);
Index key_parts_bytes(const Problem& problem, Index rows, bool backward);

/// Bytes that the kernel keeps after it has computed `rows` rows: its panels (packed rows and their sums) and a rule's
/// coordinates.
Index kernel_memory(const Problem& problem, Index rows);

/// Returns into how many blocks a rank's work is divided if all keys are available at once. There are up to 24 blocks,
/// so that the sums of one block take only a few percent of the tensors' bytes. If sums are made in the results' memory
/// (is_in_place()), they take no bytes of their own. The work is then divided only by batch entries, so that the sums
/// of an entry become results while they are still in a cache.
QueryBlocks query_blocks(const Problem& problem, Index rows);

/// Peak bytes of a forward pass that divides its work into `blocks`, works on one block after another, and has `extra`
/// bytes of K/V buffers.
Index forward_memory(const Problem& problem, const RowCounts& rows, const QueryBlocks& blocks, Index extra);

/// The same if the work is one block. Then the rank makes out and lse at the end, after the K/V buffers are freed.
Index local_memory(const Problem& problem, const RowCounts& rows, Index extra);

/// Returns the number of kept triples between queries and keys, batch entries included.
core::Count kept_between(const Problem& problem, const pattern::StoredRows& queries, const pattern::KeyRows& keys);
/// The same between queries and all keys of the sequence, whichever ranks have them; by a closed form.
core::Count kept_of(const Problem& problem, const pattern::StoredRows& queries);

}  // namespace annulus::strategies
