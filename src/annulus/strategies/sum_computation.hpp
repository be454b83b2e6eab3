// What a rank adds up once the LSE is known, for its own key rows and for those of others that come by: the local half
// of every strategy's backward pass, and of the pass that makes statistics.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Sums for the rows of a KeyBlock, in its form: a (parts, held, unit) array of Problem::sum_precision numbers. Parts
/// are dK, then dV, of all batch entries (or both in one, Problem::kv_parts()), and the same of what blocks of query
/// rows have begun (has_begun_sums()); or what keys received, of all batch entries. Without memory: not asked for.
struct GradientBlock {
  void* data = nullptr;
  Index held = 0;
  bool packed = false;

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  Index bytes(const Problem& problem) const { return problem.sum_parts() * held * unit_bytes(problem); }
  /// The block as the kernel sees dK (which = 0) or dV (which = 1), and what is begun of them (2, 3); or what was
  /// received (which = 0).
  core::TensorView view(const Problem& problem, Index which) const;
  /// The block in rows of one head, as packed rows are counted.
  kernels::RowArray head_rows(const Problem& problem) const;
};

/// Queries in hand: of the rows `held` that tensors q, normalizers, ... have, those that are worked on. Most often they
/// are the rank's own.
struct QueryBlock {
  const pattern::StoredRows& rows;
  const pattern::StoredRows& held;
  const Tensors& tensors;
};

/// Whose sums a backward pass makes: both, or those of the queries alone, or those of the keys alone.
enum class Wanted { all, of_queries, of_keys };

class SumComputation {
 public:
  /// Sums of a rank with so many rows. `expected` as in Computation. Has sums for own keys where `own`.
  SumComputation(const Problem& problem, const RowCounts& own_rows, const Tensors& tensors, core::Count expected,
                 const Progress& progress, bool own = true);
  virtual ~SumComputation() = default;

  /// Sums for the rank's own K/V rows.
  const GradientBlock& own() const { return own_; }
  /// Begins one of rounds_of(problem); sums go on from round to round.
  void begin(const Problem& pass);
  /// Adds what `part` of the block's keys and the queries give each other: to what the queries have, and to `into`,
  /// which has the form of `block`. `poll` keeps messages moving meanwhile.
  void add(const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into, core::Band part,
           const std::string& where, core::HopMetrics& metrics, const std::function<void()>& poll = {});

 protected:
  virtual void attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries,
                      const GradientBlock& into, const std::function<void()>& poll) = 0;
  /// A (B, rows, H, numbers) tensor.
  core::TensorView view(const core::Buffer& buffer, core::DType type, Index rows, Index numbers) const;
  /// Hands out the sums for the own rows.
  core::Buffer take_own();

  const Problem& problem_;
  const RowCounts own_rows_;

 private:
  const std::function<void()>& callers_poll_;
  const Progress progress_;  // of its own: callers may give one made on the spot
  core::Buffer sums_;
  GradientBlock own_;
  pattern::Layout layout_;  // of the pass
  std::string pass_;        // its name, in front of places
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// What blocks of query rows have begun joins the sums, where it is kept apart: all ranks' rows up to here have been
/// added to the block's keys.
void end_blocks(const Problem& problem, const GradientBlock& block);
/// Bytes of the sums for a rank's own K/V rows.
Index key_sum_bytes(const Problem& problem, Index rows);
/// Bytes of the sums of packed rows.
Index gradient_bytes(const Problem& problem, const pattern::PackedRows& packed);
/// An array of sums as a message block with all its rows selected.
comm::RowBlock sum_block(const Problem& problem, void* data, Index held, Index unit_bytes);

}  // namespace annulus::strategies
