// Rows of tensors that lie in a file instead of memory: strategies read and write them through this, store implements
// it, app hands it in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// A tensor (B, rows, heads, numbers) of a run, wherever it is stored.
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

/// Which rows a tensor has, what it has for each, and as what it is kept in memory.
struct StoredTensorEntry {
  enum class Rows { query, key };                           ///< Sq rows, or S
  enum class Heads { query, key };                          ///< H heads, or Hkv
  enum class Numbers { dim, value, one, normalizer, top };  ///< of a head: D, Dv, 1, normalizer_numbers, k of top keys
  enum class Type { tensor, lse, sum, float64, int64 };     ///< that of q; of lse; of sums (precision)

  StoredTensor id;
  std::string_view name;  ///< of its dataset in a result, and in an input file by default
  Rows rows;
  Heads heads;
  Numbers numbers;
  Type type;
};

/// Every tensor, in the order of the enumeration. `normalizers` is what the forward pass leaves for the backward pass
/// (kernels/normalizer.hpp); it is no part of the result.
inline constexpr auto stored_tensor_table = [] {
  using Rows = StoredTensorEntry::Rows;
  using enum StoredTensorEntry::Heads;
  using enum StoredTensorEntry::Numbers;
  using enum StoredTensorEntry::Type;
  return std::array<StoredTensorEntry, 15>{{
      {StoredTensor::q, "q", Rows::query, query, dim, tensor},
      {StoredTensor::k, "k", Rows::key, key, dim, tensor},
      {StoredTensor::v, "v", Rows::key, key, value, tensor},
      {StoredTensor::dout, "dout", Rows::query, query, value, tensor},
      {StoredTensor::dlse, "dlse", Rows::query, query, one, lse},
      {StoredTensor::out, "out", Rows::query, query, value, tensor},
      {StoredTensor::lse, "lse", Rows::query, query, one, lse},
      {StoredTensor::normalizers, "normalizers", Rows::query, query, normalizer, sum},
      {StoredTensor::entropy, "entropy", Rows::query, query, one, lse},
      {StoredTensor::dq, "dq", Rows::query, query, dim, tensor},
      {StoredTensor::dk, "dk", Rows::key, key, dim, tensor},
      {StoredTensor::dv, "dv", Rows::key, key, value, tensor},
      {StoredTensor::received, "received", Rows::key, query, one, float64},
      {StoredTensor::top_rows, "top_rows", Rows::query, query, top, int64},
      {StoredTensor::top_weights, "top_weights", Rows::query, query, top, lse},
  }};
}();

constexpr const StoredTensorEntry& entry_of(StoredTensor tensor) { return stored_tensor_table[std::size_t(tensor)]; }
constexpr std::string_view name_of(StoredTensor tensor) { return entry_of(tensor).name; }

/// The tensor of this name; nothing for every other name (y, dwq of a layer).
constexpr std::optional<StoredTensor> stored_tensor(std::string_view name) {
  for (const StoredTensorEntry& one : stored_tensor_table) {
    if (one.name == name) return one.id;
  }
  return std::nullopt;
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
