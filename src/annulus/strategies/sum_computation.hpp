// What a rank adds up once the LSE is known, for its own key rows and for those of other ranks as they arrive. All
// strategies use it in their backward pass, and in the pass that makes statistics.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Sums for the rows of a KeyBlock, in the same form: a (parts, held, unit) array of numbers in Problem::sum_precision.
/// The parts are dK, then dV, of all batch entries (or both in one part, Problem::kv_parts()), then the same for the
/// sums of the current block of query rows (has_begun_sums()); or what keys received, of all batch entries. No memory:
/// these sums are not wanted.
struct GradientBlock {
  void* data = nullptr;
  Index held = 0;
  bool packed = false;

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  Index bytes(const Problem& problem) const { return problem.sum_parts() * held * unit_bytes(problem); }
  /// The block as the kernel sees dK (which = 0), dV (1), and those of the current block of query rows (2, 3); or what
  /// keys received (which = 0).
  core::TensorView view(const Problem& problem, Index which) const;
  /// The block in rows of one head, the unit in which packed rows are counted.
  kernels::RowArray head_rows(const Problem& problem) const;
};

/// Queries that a step works on: `rows`, out of the rows `held` that the tensors q, normalizers, ... have. Usually they
/// are the rank's own.
struct QueryBlock {
  const pattern::StoredRows& rows;
  const pattern::StoredRows& held;
  const Tensors& tensors;
};

/// Whose sums a backward pass makes: all, or only those of the queries, or only those of the keys.
enum class Wanted { all, of_queries, of_keys };

class SumComputation {
 public:
  /// For a rank with `own_rows` rows. `expected`: as in Computation. `own`: whether there are sums for the own keys.
  SumComputation(const Problem& problem, const RowCounts& own_rows, const Tensors& tensors, core::Count expected,
                 const Progress& progress, bool own = true);
  virtual ~SumComputation() = default;

  /// Sums for the rank's own K/V rows.
  const GradientBlock& own() const { return own_; }
  /// Begins one round of rounds_of(problem); the sums continue from round to round.
  void begin(const Problem& pass);
  /// Adds what the keys `part` of the block and the queries give each other: to the sums of the queries, and to `into`,
  /// which has the form of `block`. Calls `poll` meanwhile to keep messages moving.
  void add(const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into, core::Band part,
           const std::string& where, core::HopMetrics& metrics, const std::function<void()>& poll = {});

 protected:
  virtual void attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries,
                      const GradientBlock& into, const std::function<void()>& poll) = 0;
  /// A tensor (B, rows, H, numbers).
  core::TensorView view(const core::Buffer& buffer, core::DType type, Index rows, Index numbers) const;
  /// Hands over the sums for the own rows.
  core::Buffer take_own();

  const Problem& problem_;
  const RowCounts own_rows_;

 private:
  const std::function<void()>& callers_poll_;
  const Progress progress_;  // a copy: callers may pass a temporary
  core::Buffer sums_;
  GradientBlock own_;
  pattern::Layout layout_;  // of the round
  std::string pass_;        // name of the round, in front of scopes
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// Where sums of the current block of query rows are kept apart, adds them to the total. Called when the query rows of
/// all ranks up to here have been added to the block's keys.
void end_blocks(const Problem& problem, const GradientBlock& block);
/// Bytes of the sums for `rows` K/V rows of a rank.
Index key_sum_bytes(const Problem& problem, Index rows);
/// Bytes of the sums for packed rows.
Index gradient_bytes(const Problem& problem, const pattern::PackedRows& packed);
/// An array of sums as a message block that sends all its rows.
comm::RowBlock sum_block(const Problem& problem, void* data, Index held, Index unit_bytes);

}  // namespace annulus::strategies
