// Rows of tensors that lie in nobody's memory but in a file: strategies read and write them through this, io implements
// it, app hands it in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// A tensor (B, S, heads, numbers) of a run, wherever it is stored.
///   normalizers  (B, S, H, 2) of the problem's precision (kernels/normalizer.hpp): what the forward pass leaves for
///                the backward pass; no part of the result
///   received       (B, S, H, 1) float64; top_rows (B, S, H, k) int64; top_weights (B, S, H, k) in the type of lse
enum class StoredTensor {
  q,
  k,
  v,
  dout,
  dlse,
  out,
  lse,
  normalizers,
  entropy,
  dq,
  dk,
  dv,
  received,
  top_rows,
  top_weights
};

constexpr std::string_view name_of(StoredTensor tensor) {
  constexpr std::string_view names[] = {"q",   "k",   "v",           "dout",     "dlse",
                                        "out", "lse", "normalizers", "entropy",  "dq",
                                        "dk",  "dv",  "received",    "top_rows", "top_weights"};
  return names[std::size_t(tensor)];
}

/// Rows first, first + stride, ..., `count` of them, of one batch entry and of heads that lie side by side, and where
/// they lie in host memory: row by row `pitch` bytes apart, in a row head by head `head_pitch` bytes apart, the numbers
/// of a head next to each other.
/// Worked example: key/value head 3 of rows 7, 11, 15 packed into 3 D numbers: {.first = 7, .stride = 4, .count = 3,
/// .heads = {3, 4}, .pitch = bytes of D numbers}.
struct RowPiece {
  Index batch = 0;
  Index first = 0;
  Index stride = 1;
  Index count = 0;
  Interval heads;
  void* memory = nullptr;
  Index pitch = 0;
  Index head_pitch = 0;  ///< of no meaning for one head
};

/// Bytes that were asked for, and bytes that were moved for them: sparse rows are read in larger pieces.
struct RowTraffic {
  Index asked = 0;
  Index moved = 0;
  double seconds = 0;  ///< in which a thread was reading or writing
};

/// Reads ahead. For one thread; a thread of its own may do the work.
class RowSource {
 public:
  /// A read that was begun; the first is 1.
  using Ticket = std::uint64_t;

  virtual ~RowSource() = default;

  /// Begins to read pieces of a tensor, in the type that it is stored in; reads are done in the order in which they are
  /// begun. The memory stays where it is until wait() or the end of the source.
  virtual Ticket start(StoredTensor tensor, std::vector<RowPiece> pieces) = 0;
  /// Returns when the read is done. Throws Error(failure) where it, or one before it, failed, or brought a number that
  /// is none (NaN, infinity): dataset, global index and value.
  virtual void wait(Ticket ticket) = 0;
  virtual RowTraffic traffic() const { return {}; }
};

/// Takes results. For one thread.
class RowSink {
 public:
  virtual ~RowSink() = default;

  /// Writes pieces of a tensor; their memory is free again on return. Throws Error(failure).
  virtual void write(StoredTensor tensor, const std::vector<RowPiece>& pieces) = 0;
  virtual RowTraffic traffic() const { return {}; }
};

}  // namespace annulus::core
