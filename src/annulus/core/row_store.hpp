// Describes rows of tensors that are in a file instead of memory. Strategies read and write such rows through the
// interface below. Folder store implements the interface, and app passes the objects to the strategies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// The tensors of a run, each (B, rows, heads, numbers), wherever they are stored.
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

/// Says how many rows a tensor has, how many heads a row has, how many numbers a head has, and the type of the numbers
/// in memory.
struct StoredTensorEntry {
  enum class Rows { query, key };                           ///< Sq rows (Sq: number of queries), or S
  enum class Heads { query, key };                          ///< H heads, or Hkv
  enum class Numbers { dim, value, one, normalizer, top };  ///< in a head: D, Dv, 1, normalizer_numbers, top_keys
  enum class Type { tensor, lse, sum, float64, int64 };     ///< the type of q, of lse, or of sums (precision)

  StoredTensor id;
  std::string_view name;  ///< name of its dataset in a result and, by default, in an input file
  Rows rows;
  Heads heads;
  Numbers numbers;
  Type type;
};

/// Every tensor, in the order of StoredTensor. The forward pass makes `normalizers` for the backward pass
/// (kernels/normalizer.hpp); `normalizers` are not part of the result.
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

/// Returns the tensor with this name; empty for any other name (y or dwq of a layer, for example).
constexpr std::optional<StoredTensor> stored_tensor(std::string_view name) {
  for (const StoredTensorEntry& one : stored_tensor_table) {
    if (one.name == name) return one.id;
  }
  return std::nullopt;
}

/// Describes rows `first`, `first + stride`, ... (`count` of them) of adjacent heads of one batch entry, and where they
/// are in host memory. Rows are `pitch` bytes apart, the heads of a row are `head_pitch` bytes apart, and the numbers
/// of a head are contiguous.
/// Worked example: key/value head 3 of the rows 7, 11 and 15, packed so that its 3 D numbers are contiguous, is
/// {.first = 7, .stride = 4, .count = 3, .heads = {3, 4}, .pitch = bytes of D numbers}.
struct RowPiece {
  Index batch = 0;
  Index first = 0;
  Index stride = 1;
  Index count = 0;
  Interval heads;
  void* memory = nullptr;
  Index pitch = 0;
  Index head_pitch = 0;  ///< not used if there is one head
};

/// Bytes that were requested (`asked`), and bytes that were moved. Often more bytes are moved than requested, because
/// rows with small gaps between them are read in one call together with the gaps.
struct RowTraffic {
  Index asked = 0;
  Index moved = 0;
  double seconds = 0;  ///< wall time in which a thread was reading or writing
};

/// Reads rows before they are needed. Only one thread may call its functions. The source may read in another thread.
class RowSource {
 public:
  /// Identifies a read that was started. A later read never has a smaller ticket.
  using Ticket = std::uint64_t;

  virtual ~RowSource() = default;

  /// Starts to read pieces of a tensor, as numbers of the type that the tensor has in memory. Reads are done in the
  /// order in which they were started. The caller keeps the memory valid until wait() returns or the source is
  /// destroyed. May throw what wait() throws.
  virtual Ticket start(StoredTensor tensor, std::vector<RowPiece> pieces) = 0;
  /// Returns when the read is done. Throws Error(failure) if this read or an earlier read failed, or found a NaN or an
  /// infinity; the message gives dataset, global index and value.
  virtual void wait(Ticket ticket) = 0;
  virtual RowTraffic traffic() const { return {}; }
};

/// Writes rows of results. Only one thread may call its functions.
class RowSink {
 public:
  virtual ~RowSink() = default;

  /// Writes pieces of a tensor; on return the caller may reuse their memory. Throws Error(failure).
  virtual void write(StoredTensor tensor, const std::vector<RowPiece>& pieces) = 0;
  virtual RowTraffic traffic() const { return {}; }
};

}  // namespace annulus::core
