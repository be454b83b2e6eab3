// What a strategy is given: the problem, and this rank's tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "annulus/comm/row_block.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/pattern/plan.hpp"

namespace annulus::strategies {

using core::Index;

/// Query heads of a problem that a rank works on.
struct HeadShare {
  Index heads = 1;     ///< of the whole problem
  Index kv_heads = 1;  ///< of the whole problem
  core::Interval query;
};

/// One attention problem, the same on every rank.
struct Problem {
  core::Shape shape;
  core::DType type = core::DType::float32;
  core::Precision precision = core::Precision::float32;
  double scale = 1;
  pattern::Pattern pattern;
  pattern::Documents documents;
  kernels::Backend backend = kernels::Backend::host;
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  Index block_size = 0;                             ///< rows, of block_cyclic; 0: auto
  int ulysses_ranks = 0;                            ///< ranks of a group, of hybrid; 0: all ranks are one group
  std::optional<HeadShare> share;                   ///< where the heads of `shape` come from; empty: they are all

  pattern::Layout layout() const {
    if (share) return {pattern, documents, share->heads, share->kv_heads, share->query};
    return {pattern, documents, shape.heads, shape.kv_heads};
  }
  /// Bytes of one row of q or out, of k (or v), and of lse; for one batch entry.
  Index query_row_bytes() const { return shape.heads * shape.head_dim * Index(core::bytes_of(type)); }
  Index kv_row_bytes() const { return shape.kv_heads * shape.head_dim * Index(core::bytes_of(type)); }
  /// Bytes of one row of one key/value head: what travels is counted in these.
  Index head_row_bytes() const { return shape.head_dim * Index(core::bytes_of(type)); }
  Index lse_row_bytes() const { return shape.heads * Index(core::bytes_of(core::lse_type(type))); }
  /// Type of the numbers in which gradients are added up and travel, and bytes of a row of one head of them.
  core::DType sum_type() const {
    return precision == core::Precision::float64 ? core::DType::float64 : core::DType::float32;
  }
  Index head_row_sum_bytes() const { return shape.head_dim * Index(core::bytes_of(precision)); }
};

/// The problem of a rank that works on query heads `query` only: a shape of these heads and of the K/V heads that they
/// read, while offsets remain those of the whole problem.
Problem narrowed(const Problem& whole, core::Interval query);

/// This rank's rows of the tensors, in the default execution space's memory and in the order of its StoredRows.
struct Tensors {
  core::Buffer q;    ///< (B, rows, H, D)
  core::Buffer kv;   ///< (2, B, rows, Hkv, D): K of all batch entries, then V, so that one message carries both
  core::Buffer out;  ///< (B, rows, H, D), made by forward(), read by backward()
  core::Buffer lse;  ///< (B, rows, H), made by forward(), read by backward()

  core::Buffer dout = {};  ///< (B, rows, H, D), read by backward()
  core::Buffer dlse = {};  ///< (B, rows, H) in the type of lse, read by backward(); no bytes: zeros
  core::Buffer dq = {};    ///< (B, rows, H, D), made by backward()
  core::Buffer dkv = {};   ///< (2, B, rows, Hkv, D): dK, then dV; made by backward()
};

/// A (2, B, held, unit_bytes) array of K and V rows as a message block with all its rows selected.
comm::RowBlock kv_block(const Problem& problem, void* data, Index held, Index unit_bytes);

/// Which rank holds which rows in strategies that spread them: the problem's partition, or where that is `auto`
/// contiguous unless zigzag has at most 1 / 1.05 of its busiest rank's work.
pattern::Partition distributed_partition(const Problem& problem, int ranks);

/// Called on every rank as work proceeds, with the share of this rank's kept triples that are done (0 ... 1) and a word
/// on the place ("hop 2 of 3").
using Progress = std::function<void(double share, const std::string& place)>;

}  // namespace annulus::strategies
