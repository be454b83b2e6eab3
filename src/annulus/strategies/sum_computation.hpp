// After the forward pass, which makes the LSE, a rank makes sums for its own key rows, and for key rows of other ranks
// as they arrive. The backward pass makes sums of gradients; the statistics pass sums up what keys receive. All
// strategies use this code.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Sums for the rows of a KeyBlock, in the same form: parts with `held` stored rows each, of numbers in
/// Problem::sum_precision(). In the backward pass the parts are dK of each batch entry, then dV of each (or, for each
/// entry, one part with both: Problem::kv_parts()). If has_query_block_sums(), the same number of parts follows, with
/// the sums of the current block of query rows. In the statistics pass there is one part for each batch entry, with
/// what keys received. `data` is null if these sums are not wanted.
struct GradientBlock {
  void* data = nullptr;
  Index held = 0;
  bool packed = false;

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  Index bytes(const Problem& problem) const { return problem.sum_parts() * held * unit_bytes(problem); }
  /// Returns the tensor to which the kernel adds. which = 0: dK, or what keys received; 1: dV; 2 and 3: dK and dV of
  /// the current block of query rows.
  core::TensorView view(const Problem& problem, Index which) const;
  /// The block as an array of rows of one head, the unit in which packed rows are counted.
  kernels::RowArray head_rows(const Problem& problem) const;
};

/// `rows` are the queries that a step works on. The tensors q, normalizers, ... store the rows `held`, which include
/// `rows`. Usually `held` are the rank's own query rows.
struct QueryBlock {
  const pattern::StoredRows& rows;
  const pattern::StoredRows& held;
  const Tensors& tensors;
};

/// Selects which sums a backward pass makes: all, only those of the queries, or only those of the keys.
enum class Wanted { all, of_queries, of_keys };

class SumComputation {
 public:
  /// `own_rows`: this rank's numbers of rows. `expected`: number of kept triples that all calls of add() will have
  /// together; only the reported progress depends on it. `own`: whether to make sums for the own keys.
  SumComputation(const Problem& problem, const RowCounts& own_rows, const Tensors& tensors, core::Count expected,
                 const Progress& progress, bool own = true);
  virtual ~SumComputation() = default;

  /// Sums for the rank's own K/V rows.
  const GradientBlock& own() const { return own_; }
  /// Begins the next round of rounds_of(problem); the sums continue from round to round.
  void begin(const Problem& round);
  /// Adds the contributions of all pairs of a query and a key of `block` in the band `part`: to the sums of the
  /// queries, and to `into`, which has the form of `block`. Calls `poll` meanwhile to keep messages moving.
  void add(const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into, core::Band part,
           const std::string& where, core::HopMetrics& metrics, const std::function<void()>& poll = {});

 protected:
  virtual void attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries,
                      const GradientBlock& into, const std::function<void()>& poll) = 0;
  /// A tensor (B, rows, H, numbers).
  core::TensorView view(const core::Buffer& buffer, core::DType type, Index rows, Index numbers) const;
  /// Returns the buffer of the sums for the own key rows; this object then has none.
  core::Buffer take_own();

  const Problem& problem_;
  const RowCounts own_rows_;

 private:
  const std::function<void()>& callers_poll_;
  const Progress progress_;  // a copy: callers may pass a temporary
  core::Buffer sums_;
  GradientBlock own_;
  pattern::Layout layout_;  // of the round
  std::string round_;       // name of the round, which add() puts before the name of a step
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// If has_query_block_sums(), adds the sums of the current block of query rows to the total. Call it when `block` gets
/// no more sums in this round.
void end_blocks(const Problem& problem, const GradientBlock& block);
/// Bytes of the sums for `rows` K/V rows of a rank.
Index key_sum_bytes(const Problem& problem, Index rows);
/// Bytes of the sums for packed rows.
Index gradient_bytes(const Problem& problem, const pattern::PackedRows& packed);
/// Returns an array of sums as a message block, which sends all rows of the array.
comm::RowBlock sum_block(const Problem& problem, void* data, Index held, Index unit_bytes);

}  // namespace annulus::strategies
