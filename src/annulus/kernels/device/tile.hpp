// A team's tile: where its numbers are in scratch memory, which ones a thread computes, and the two products of both
// passes. `rows`: rows that the team owns. `met`: rows of the other side in a tile (work.hpp). T: type of sums.
//
//   S = A B^T     rows x met       of A (rows x D) and B (met x D), `depth` numbers of each row at a time
//   O += W V      rows x columns   of weights W (rows x met) and V (met x D), `depth` rows of V at a time, for one
//                                  chunk of `columns` numbers of D after another
//
// So scratch memory holds parts of rows, whose size does not depend on D, and each thread has a block of scores. A GPU
// reads 16 bytes (a "piece") as fast as one number, so a block of 4 x 4 floats takes 8 reads for 64 multiply-adds.
//
// Example: GpuTuning, float. 32 x 64 numbers are 8 x 16 blocks of 4 x 4, one for each of 128 threads. Thread 17 has
// rows 4 5 6 7. Of the scores it has columns 1 17 33 49, so thread 18 reads the next rows of B, which are in other
// memory banks. Of the output it has columns 4 5 6 7 (double: 2 3 34 35), so thread 18 reads the next pieces of V.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/unroll.hpp"

namespace annulus::kernels::device {

/// Neighbouring numbers, read or written at once if they are 16 bytes or fewer. Numbers are written in pieces of one
/// size and read in pieces of another size. Without may_alias, host compilers would assume that pieces of different
/// sizes do not share memory.
template <class T, int count>
struct [[gnu::may_alias]] alignas(sizeof(T) * count) Numbers {
  T of[count];
};

template <int count, class T>
KOKKOS_INLINE_FUNCTION Numbers<T, count> read(const T* from) {
  return *reinterpret_cast<const Numbers<T, count>*>(from);
}

/// Returns the first address at or after `from` that is a multiple of 16 bytes.
template <class T>
KOKKOS_INLINE_FUNCTION T* whole_piece(T* from) {
  const int beyond = int(reinterpret_cast<std::uintptr_t>(from) % 16);
  return from + (16 - beyond) % 16 / int(sizeof(T));
}

template <class Tuning, class T>
struct Tile {
  static constexpr int rows = Tuning::rows, met = Tuning::met, columns = Tuning::columns;
  static constexpr int block_rows = Tuning::block_rows, block_columns = Tuning::block_columns;
  static constexpr int piece = 16 / int(sizeof(T));
  static constexpr int depth = Tuning::depth_bytes / int(sizeof(T));
  static constexpr int row_stride = depth + piece;   ///< of A and B; above depth, so that rows use different banks
  static constexpr int weight_stride = met + piece;  ///< of S and W

  // Sizes in scratch memory, in numbers of type T: what is loaded of A, of B or V, and S or W.
  static constexpr int own_size = rows * row_stride;
  static constexpr int met_size = met * row_stride > depth* columns ? met* row_stride : depth* columns;
  static constexpr int weight_size = rows * weight_stride;

  static_assert(rows % block_rows == 0 && met % block_columns == 0 && columns % block_columns == 0);
  static_assert(met % piece == 0 && block_columns % piece == 0 && depth % piece == 0);

  /// One thread's block of a product, held in registers.
  struct Block {
    T of[block_rows][block_columns];
  };
  /// How many blocks of a product of `width` columns a thread has, at most.
  template <int width>
  static constexpr int slots = (rows / block_rows * (width / block_columns) - 1) / Tuning::team_size + 1;

  using Scores = Block[slots<met>];
  using Output = Block[slots<columns>];  ///< of one chunk

  /// How many chunks a head has.
  KOKKOS_FUNCTION static int chunks(int head_dim) { return (head_dim + columns - 1) / columns; }

  /// Calls visit(slot, first row, column of blocks) for this thread's blocks of a product of `width` columns.
  template <int width, class Member, class Visit>
  KOKKOS_FUNCTION static void for_each_block(const Member& team, const Visit& visit) {
    constexpr int across = width / block_columns, blocks = rows / block_rows * across;
    ANNULUS_UNROLL
    for (int slot = 0; slot < slots<width>; ++slot) {
      const int number = team.team_rank() + slot * team.team_size();
      if (number < blocks) visit(slot, number / across * block_rows, number % across);
    }
  }

  /// Returns the column of the scores that is column c of a block. `block`: the block's position in its row of blocks.
  KOKKOS_FUNCTION static constexpr int score_column(int block, int c) { return block + c * (met / block_columns); }
  /// The same for outputs, with columns counted inside their chunk.
  KOKKOS_FUNCTION static constexpr int output_column(int block, int c) {
    return c / piece * (columns / block_columns * piece) + block * piece + c % piece;
  }

  /// sum[r][c] += a_r . b_c over x < width, one x after another; width is a multiple of `piece`. `a` points to the
  /// block's first row of A, `b` to the row of B that is its first column.
  KOKKOS_FUNCTION static void multiply_rows(Block& sum, const T* a, const T* b, int width) {
    for (int x = 0; x < width; x += piece) {
      Numbers<T, piece> of_b[block_columns];
      ANNULUS_UNROLL
      for (int c = 0; c < block_columns; ++c) of_b[c] = read<piece>(b + score_column(0, c) * row_stride + x);
      ANNULUS_UNROLL
      for (int r = 0; r < block_rows; ++r) {
        const Numbers<T, piece> of_a = read<piece>(a + r * row_stride + x);
        ANNULUS_UNROLL
        for (int n = 0; n < piece; ++n) {
          ANNULUS_UNROLL
          for (int c = 0; c < block_columns; ++c) sum.of[r][c] += of_a.of[n] * of_b[c].of[n];
        }
      }
    }
  }

  /// sum[r][c] += sum over x < count of weights[r][x] v[x][c], one x after another. `weights` points to the block's
  /// first row of W, `v` to its first column of V.
  KOKKOS_FUNCTION static void multiply_weights(Block& sum, const T* weights, const T* v, int count) {
    int x = 0;
    for (; x + piece <= count; x += piece) {
      Numbers<T, piece> of_row[block_rows];
      ANNULUS_UNROLL
      for (int r = 0; r < block_rows; ++r) of_row[r] = read<piece>(weights + r * weight_stride + x);
      ANNULUS_UNROLL
      for (int n = 0; n < piece; ++n) {
        add_row(sum, v + (x + n) * columns, [&](int r) { return of_row[r].of[n]; });
      }
    }
    for (; x < count; ++x) add_row(sum, v + x * columns, [&](int r) { return weights[r * weight_stride + x]; });
  }

  /// The same, but only with the pairs for which sees(r, x) is true.
  template <class Sees>
  KOKKOS_FUNCTION static void multiply_seen(Block& sum, const T* weights, const T* v, int count, const Sees& sees) {
    for (int x = 0; x < count; ++x) {
      Block more = sum;
      add_row(more, v + x * columns, [&](int r) { return weights[r * weight_stride + x]; });
      ANNULUS_UNROLL
      for (int r = 0; r < block_rows; ++r) {
        const bool seen = sees(r, x);
        ANNULUS_UNROLL
        for (int c = 0; c < block_columns; ++c) sum.of[r][c] = seen ? more.of[r][c] : sum.of[r][c];
      }
    }
  }

 private:
  template <class WeightOf>
  KOKKOS_FUNCTION static void add_row(Block& sum, const T* v, const WeightOf& weight_of) {
    ANNULUS_UNROLL
    for (int first = 0; first < block_columns; first += piece) {
      const Numbers<T, piece> of_v = read<piece>(v + output_column(0, first));
      ANNULUS_UNROLL
      for (int r = 0; r < block_rows; ++r) {
        ANNULUS_UNROLL
        for (int n = 0; n < piece; ++n) sum.of[r][first + n] += weight_of(r) * of_v.of[n];
      }
    }
  }
};

}  // namespace annulus::kernels::device
