// Computes a problem whose tensors are in a store, one block of rows after another. A unit is one phase for one block
// of one batch entry. A unit depends only on units of earlier phases, so its results are the same whichever process
// computes it.
//
//   phase 0  makes, for a block's queries, out, lse and, if asked for, entropy. With gradients it also makes dq and the
//            normalizers, which go into the store for phase 1. It reads q, k and v of the block, with gradients also
//            dout and dlse. Each pass (forward, and backward for dq) also reads, from other blocks, the rows of K
//            and V that the queries see
//   phase 1  only with gradients: makes dk and dv for a block's keys. It reads k and v of the block, and q, out, dout,
//            normalizers and, if there is one, dlse of the query rows that see these keys
//
// Units of a phase are numbered in this order: all blocks of batch entry 0, all blocks of entry 1, and so on.
#pragma once

#include <memory>
#include <optional>

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// Returns the flops of `products` products for each of `kept` triples. The first product has D multiply-adds, the
/// second Dv, the third D, and so on. Worked example: D = 16, Dv = 8. The forward pass has two products, q.k and P v,
/// with 16 and 8 multiply-adds. dq needs three more: q.k again, dout.v and dS k, with 16, 8 and 16.
inline double flops_of(const core::Shape& shape, double kept, int products) {
  const core::Index of_each = (products + 1) / 2 * shape.head_dim + products / 2 * shape.dim_of_values();
  return 2 * kept * double(of_each);
}

struct UnitCost {
  Index memory_bytes = 0;  ///< peak of tensors and buffers, as the memory ledger counts them
  Index bytes_read = 0;
  Index bytes_written = 0;
  /// Kept triples of the block's queries; in phase 1, too, although the block's keys may have more or fewer
  core::Count kept = 0;
  int products = 0;  ///< number of products for each triple: see flops_of()
};

/// The measurements of a unit; `backward` is set only if the unit made gradients.
struct UnitMetrics {
  std::optional<core::RankMetrics> forward, backward;
  std::vector<std::int64_t> sink_sums = {};  ///< of the unit's queries (Tensors::sink_sums)
};

/// Runs the units of a problem in which all rows are queries, and predicts their costs.
class BlockPasses {
 public:
  /// `dlse`: whether the store has gradients of the LSE. `sink`: scores of the extra keys (Tensors::sink).
  BlockPasses(const Problem& problem, pattern::Partition blocks, bool dlse, std::vector<double> sink = {});

  Index blocks() const { return Index(blocks_.size()); }
  const pattern::StoredRows& rows(Index block) const { return blocks_[std::size_t(block)]; }
  int phases() const { return problem_.gradients ? 2 : 1; }
  /// Number of units of each phase.
  Index units() const { return entries_ * blocks(); }
  Index block_of(Index unit) const { return unit % blocks(); }
  Index entry_of(Index unit) const { return unit / blocks(); }

  UnitCost cost(int phase, Index block) const;
  /// The schedule of phase 0: what each block reads from other blocks, step by step.
  const Schedule& forward() const { return *forward_; }

  /// Runs one unit in this process, without other ranks. Throws core::Error.
  UnitMetrics run(int phase, Index unit, core::RowSource& source, core::RowSink& sink, const Progress& progress,
                  const std::function<void()>& poll = {}) const;

 private:
  UnitMetrics run_queries(const Location& location, core::RowSink& sink, const Progress& progress,
                          Tensors tensors) const;
  UnitMetrics run_keys(const Location& location, core::RowSink& sink, const Progress& progress, Tensors tensors) const;
  /// Reads the inputs of a backward pass that the forward pass does not need: dout and dlse.
  void read_late(const Location& location, Tensors& tensors, core::HopMetrics& metrics) const;

  const Problem problem_;  // of one batch entry
  const Index entries_;
  const pattern::Partition blocks_;
  const bool dlse_;
  const std::vector<double> sink_;
  std::unique_ptr<const Schedule> forward_, of_queries_, of_keys_;
};

}  // namespace annulus::strategies
