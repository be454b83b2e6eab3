// A problem whose tensors lie in a store, computed block of rows by block of rows, in units that depend on nothing but
// units of phases before: whichever process computes a unit, its numbers are the same.
//
//   phase 0  of a block's queries: out, lse, the entropy where it is asked for; with gradients dq, too, and the
//            normalizers, which go into the store for phase 1. Reads q, k, v (dout, dlse) of the block, and the K and V
//            rows that it reads of other blocks, once a pass
//   phase 1  of a block's keys, with gradients only: dk and dv. Reads k and v of the block, and q, out, dout and
//            normalizers (dlse) of the query rows that see its keys
//
// Units of a phase are counted block after block, then entry of the batch after entry.
#pragma once

#include <memory>
#include <optional>

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// What a unit takes.
struct UnitCost {
  Index memory_bytes = 0;  ///< peak of tensors and buffers, as the memory ledger counts them
  Index bytes_read = 0;
  Index bytes_written = 0;
  core::Count kept = 0;  ///< kept triples of the block's rows
  int products = 0;      ///< of D multiply-adds for each triple, about
};

/// What a unit measured; a backward pass where it made gradients.
struct UnitMetrics {
  std::optional<core::RankMetrics> forward, backward;
  std::vector<std::int64_t> sink_sums = {};  ///< of its queries (Tensors::sink_sums)
};

class BlockPasses {
 public:
  /// The store has gradients of the LSE where `dlse`. `sink` as Tensors::sink.
  BlockPasses(const Problem& problem, pattern::Partition blocks, bool dlse, std::vector<double> sink = {});

  Index blocks() const { return Index(blocks_.size()); }
  const pattern::StoredRows& rows(Index block) const { return blocks_[std::size_t(block)]; }
  int phases() const { return problem_.gradients ? 2 : 1; }
  /// Units of each phase.
  Index units() const { return entries_ * blocks(); }
  Index block_of(Index unit) const { return unit % blocks(); }
  Index entry_of(Index unit) const { return unit / blocks(); }

  UnitCost cost(int phase, Index block) const;
  /// What block `block` reads of other blocks in phase 0, step by step.
  const Schedule& forward() const { return *forward_; }

  /// Local. Throws core::Error.
  UnitMetrics run(int phase, Index unit, core::RowSource& source, core::RowSink& sink, const Progress& progress,
                  const std::function<void()>& poll = {}) const;

 private:
  UnitMetrics run_queries(const Location& location, core::RowSink& sink, const Progress& progress,
                          Tensors tensors) const;
  UnitMetrics run_keys(const Location& location, core::RowSink& sink, const Progress& progress, Tensors tensors) const;
  /// Reads what a backward pass takes beside what the forward pass had.
  void read_late(const Location& location, Tensors& tensors, core::HopMetrics& metrics) const;

  const Problem problem_;  // of one batch entry
  const Index entries_;
  const pattern::Partition blocks_;
  const bool dlse_;
  const std::vector<double> sink_;
  std::unique_ptr<const Schedule> forward_, of_queries_, of_keys_;
};

}  // namespace annulus::strategies
