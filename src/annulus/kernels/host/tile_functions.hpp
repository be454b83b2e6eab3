// What the instruction-set files offer and what they are told: plain data and function pointers.
//
// This header is compiled with AVX-512 flags in one file and with none in another. Nothing in it may therefore be a
// function or include one: the linker keeps one copy of an inline function for the whole program, and it could keep
// the AVX-512 copy.
#pragma once

#include <cstdint>

namespace annulus::kernels::host {

/// 16-bit storage as these files see it (core/storage.hpp needs Kokkos and so cannot be used here).
struct HalfBits {
  std::uint16_t bits;
};
struct BFloat16Bits {
  std::uint16_t bits;
};

/// Number of storage types; a table's entry [i] is for the one with core::DType value i.
inline constexpr int kStorageTypes = 4;

/// Largest head size D.
inline constexpr int kMaxHeadDim = 256;

/// Query rows of one task and their running softmax, in groups of MR rows, private to a thread. With D padded to
/// `depth` (queries) and cut into slabs of NR columns (accumulators):
///   queries  [group][depth][MR]     already times scale * log2(e)
///   acc      [group][slab][MR][NR]
///   max      [group * MR]           even integers, -inf while empty
///   sum      [group * MR][lanes]    the row's sum is the sum over the lanes
template <class T>
struct QueryPanels {
  T* queries;
  T* acc;
  T* max;
  T* sum;
  const std::int64_t* visible;  // [group * MR] the row sees this many keys, counted from the first of its piece
  std::int64_t groups;
  int head_dim;
};

/// `count` keys of a piece, starting with number `first`, private to a thread:
///   keys    [panel][depth][NR]      NR keys side by side; those beyond `count` are zero
///   values  [slab][capacity][NR]    NR columns side by side; rows beyond `count`, up to a whole panel, are zero
template <class T>
struct KeyTile {
  T* keys;
  T* values;
  std::int64_t first;
  int count;
  int capacity;  // a multiple of NR, at most max_keys
};

/// The tile operations of one instruction set in arithmetic type T. Rows are given as addresses of their first number.
template <class T>
struct TileFunctions {
  int row_block;   // MR
  int key_block;   // NR, two vectors
  int lanes;       // numbers in a vector
  int depth_step;  // D is padded to a multiple of this
  int max_keys;    // keys of a tile at most
  /// rows: [count] addresses, count a multiple of MR. factor: scale * log2(e).
  void (*pack_queries[kStorageTypes])(const void* const* rows, std::int64_t count, int head_dim, T factor, T* queries);
  /// rows: [count] addresses, count a multiple of NR. What is to become zero is given as the address of a zero row.
  void (*pack_keys[kStorageTypes])(const void* const* rows, int count, int head_dim, T* keys);
  void (*pack_values[kStorageTypes])(const void* const* rows, int count, int head_dim, int capacity, T* values);
  /// Adds the tile's keys to the rows that see them. strip: scratch for MR * max_keys numbers.
  void (*add_tile)(const QueryPanels<T>& panels, const KeyTile<T>& tile, T* strip);
  /// out[0 .. head_dim) = acc * factor, rounded to the storage type.
  void (*store_row[kStorageTypes])(const T* acc, int head_dim, T factor, void* out);
};

// One pair of tables per compiled instruction set; which of them exist is known from ANNULUS_HAS_... and which can be
// used from the processor (instruction_set.hpp). Memory handed to them is aligned to 64 bytes, storage rows are not.
namespace baseline {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
}  // namespace baseline
namespace avx2 {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
}  // namespace avx2
namespace avx512 {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
}  // namespace avx512

}  // namespace annulus::kernels::host
