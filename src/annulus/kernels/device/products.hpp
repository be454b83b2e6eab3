// The two products of both passes (tile.hpp), as a team computes them. The team loads parts of the operands into
// scratch memory, and each thread multiplies its blocks. Sums are in registers or, if registers are too few, in memory.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/load_rows.hpp"
#include "annulus/kernels/device/tile.hpp"

namespace annulus::kernels::device {

/// Rows of an operand: row i < count begins at at(i) and is multiplied by `factor`.
template <class T, class At>
struct RowsOf {
  int count;
  T factor;
  At at;
};
template <class T, class At>
RowsOf(int, T, At) -> RowsOf<T, At>;

/// The pairs of a tile that see each other: all pairs, or if `some_hidden`, the pairs for which sees(i, j) is true.
template <class Sees>
struct Pairs {
  bool some_hidden;
  Sees sees;
};
template <class Sees>
Pairs(bool, Sees) -> Pairs<Sees>;

/// Sums of owned rows in two levels: terms are first added up over a block of the rows met (GradientViews). The sums of
/// row i are at sums(i). If `goes_on`, the next list may continue the block, and row i's sums over the unfinished block
/// are stored at begun(i). If ends(i), the block ends for row i, and its sums are added to sums(i).
template <class Sums, class Begun, class Ends>
struct TwoLevels {
  bool goes_on;
  Sums sums;
  Begun begun;
  Ends ends;
};
template <class Sums, class Begun, class Ends>
TwoLevels(bool, Sums, Begun, Ends) -> TwoLevels<Sums, Begun, Ends>;

template <class Tuning, class Storage, class T, class Member>
struct Products {
  using Tile = device::Tile<Tuning, T>;
  using Output = typename Tile::Output;

  const Member& team;
  int head_dim;
  bool whole_pieces;        ///< what have_whole_pieces() returned for all operands
  int rows;                 ///< that the team owns
  T* own;                   ///< scratch memory for parts of owned rows: own_size numbers
  T* met;                   ///< for parts of rows of the other side ("rows met"): met_size numbers
  T* weights;               ///< for scores, weights or dS: weight_size numbers
  core::Index* not_finite;  ///< becomes 1 if a number of V is not finite, in a tile with hidden pairs

  /// sums += A B^T. A block may reach beyond the tile; its sums there are not used.
  template <class A, class B>
  KOKKOS_FUNCTION void add_scores(const RowsOf<T, A>& a, const RowsOf<T, B>& b, typename Tile::Scores& sums) const {
    for (int first = 0; first < head_dim; first += Tile::depth) {
      const int left = head_dim - first, width = left < Tile::depth ? round_up(left, Tile::piece) : Tile::depth;
      team.team_barrier();  // all threads have read the old numbers
      load_rows<Tile::depth, Storage>(
          team, whole_pieces, a.count, left, a.factor, [&](int i) { return a.at(i) + first; }, own, Tile::row_stride);
      load_rows<Tile::depth, Storage>(
          team, whole_pieces, b.count, left, b.factor, [&](int j) { return b.at(j) + first; }, met, Tile::row_stride);
      team.team_barrier();
      for_each_score_block(b.count, [&](int slot, int row, int column) {
        Tile::multiply_rows(sums[slot], own + row * Tile::row_stride, met + column * Tile::row_stride, width);
      });
    }
  }

  /// Calls visit(slot, first row, column of blocks) for this thread's blocks of the scores. Leaves out blocks whose
  /// first row or first column lies beyond the scores: they have `rows` rows, and a column for each of `count` rows met
  /// (rounded up to whole pieces).
  template <class Visit>
  KOKKOS_FUNCTION void for_each_score_block(int count, const Visit& visit) const {
    const int padded = round_up(count, Tile::piece);
    Tile::template for_each_block<Tile::met>(team, [&](int slot, int row, int column) {
      if (row < rows && column < padded) visit(slot, row, column);
    });
  }
  /// Calls visit(i, j, score) for the numbers of these blocks.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_score(int count, typename Tile::Scores& sums, const Visit& visit) const {
    for_each_score_block(count, [&](int slot, int row, int column) {
      ANNULUS_UNROLL
      for (int r = 0; r < Tile::block_rows; ++r) {
        ANNULUS_UNROLL
        for (int c = 0; c < Tile::block_columns; ++c) {
          visit(row + r, Tile::score_column(column, c), sums[slot].of[r][c]);
        }
      }
    });
  }

  /// Loads `depth` rows of V, from row `first` on (fewer rows at the end of V), into `met`: of each row only the
  /// `columns` numbers of chunk `chunk`.
  template <class V>
  KOKKOS_FUNCTION void load_chunk(const RowsOf<T, V>& v, int chunk, int first, bool some_hidden) const {
    const int begin = chunk * Tile::columns, left = v.count - first;
    load_rows<Tile::columns, Storage>(
        team, whole_pieces, left < Tile::depth ? left : Tile::depth, head_dim - begin, v.factor,
        [&](int j) { return v.at(first + j) + begin; }, met, Tile::columns, some_hidden ? not_finite : nullptr);
  }

  /// sums += weights V for one chunk. `is_loaded`: the chunk's first rows are in `met` already. A hidden pair has
  /// weight 0, but 0 times infinity or NaN is NaN. So if V has such a number, hidden pairs are left out one by one.
  template <class V, class Sees>
  KOKKOS_FUNCTION void add_chunk(const RowsOf<T, V>& v, int chunk, bool is_loaded, const Pairs<Sees>& pairs,
                                 Output& sums) const {
    const int width = head_dim - chunk * Tile::columns;
    for (int first = 0; first < v.count; first += Tile::depth) {
      if (first > 0 || !is_loaded) {
        team.team_barrier();
        load_chunk(v, chunk, first, pairs.some_hidden);
        team.team_barrier();
      }
      const int left = v.count - first, count = left < Tile::depth ? left : Tile::depth;
      const bool leave_out = pairs.some_hidden && *not_finite != 0;
      Tile::template for_each_block<Tile::columns>(team, [&](int slot, int row, int column) {
        if (row >= rows || Tile::output_column(column, 0) >= width) return;
        const T* const w = weights + row * Tile::weight_stride + first;
        const T* const columns = met + Tile::output_column(column, 0);
        if (leave_out)
          Tile::multiply_seen(sums[slot], w, columns, count,
                              [&](int r, int x) { return pairs.sees(row + r, first + x); });
        else
          Tile::multiply_weights(sums[slot], w, columns, count);
      });
      if (leave_out) team.team_barrier();  // sees() reads tables that are overwritten next
    }
  }

  /// Calls body(chunk, sums) for all chunks of the head. `kept`: number of chunks whose sums stay in registers between
  /// calls of body: all, or 0. If it is 0, each chunk's sums are read into registers from row_at(i) before its call of
  /// body, and written back after the call.
  template <int kept, class RowAt, class Body>
  KOKKOS_FUNCTION void for_each_chunk(Output* sums, const RowAt& row_at, const Body& body) const {
    if constexpr (kept > 0) {
      ANNULUS_UNROLL
      for (int chunk = 0; chunk < kept; ++chunk) {
        if (chunk * Tile::columns < head_dim) body(chunk, sums[chunk]);
      }
    } else {
      for (int chunk = 0; chunk < Tile::chunks(head_dim); ++chunk) {
        for_each_sum(chunk, sums[0], row_at, [](T& here, const T& there) { here = there; });
        body(chunk, sums[0]);
        for_each_sum(chunk, sums[0], row_at, [](const T& here, T& there) { there = here; });
      }
    }
  }

  /// Calls body(chunk, terms) for all chunks of the head. body adds to the terms of a block, which are in registers. If
  /// `kept` is 0, a chunk's terms are in registers only during its call of body. Before the call they are read from
  /// memory (or start at 0 if no block goes on). After the call, the terms of a row whose block ends are added to the
  /// row's sums; the terms of other rows are written back.
  template <int kept, class To, class Body>
  KOKKOS_FUNCTION void for_each_chunk_of_terms(Output* terms, const To& to, const Body& body) const {
    if constexpr (kept > 0) {
      for_each_chunk<kept>(terms, to.sums, body);
    } else {
      for (int chunk = 0; chunk < Tile::chunks(head_dim); ++chunk) {
        Output& here = terms[0];
        for_each_sum(chunk, here, to.sums, [](T& term, const T&) { term = 0; });
        if (to.goes_on) for_each_sum(chunk, here, to.begun, [](T& term, const T& begun) { term = begun; });
        body(chunk, here);
        end_terms(chunk, here, to);
        if (to.goes_on) for_each_sum(chunk, here, to.begun, [](const T& term, T& begun) { begun = term; });
      }
    }
  }
  /// Adds the terms in registers to the sums of the rows whose block ends.
  template <int kept, class To>
  KOKKOS_FUNCTION void end_kept(Output* terms, const To& to) const {
    ANNULUS_UNROLL
    for (int chunk = 0; chunk < kept; ++chunk) end_terms(chunk, terms[chunk], to);
  }

  /// Reads from memory the sums that then stay in registers. write_kept() writes them back.
  template <int kept, class RowAt>
  KOKKOS_FUNCTION void read_kept(Output* sums, const RowAt& row_at) const {
    ANNULUS_UNROLL
    for (int chunk = 0; chunk < kept; ++chunk)
      for_each_sum(chunk, sums[chunk], row_at, [](T& here, const T& there) { here = there; });
  }
  template <int kept, class RowAt>
  KOKKOS_FUNCTION void write_kept(Output* sums, const RowAt& row_at) const {
    ANNULUS_UNROLL
    for (int chunk = 0; chunk < kept; ++chunk)
      for_each_sum(chunk, sums[chunk], row_at, [](const T& here, T& there) { there = here; });
  }

 private:
  template <class To>
  KOKKOS_FUNCTION void end_terms(int chunk, Output& terms, const To& to) const {
    const auto ended = [&](int i) { return to.ends(i) ? to.sums(i) : nullptr; };
    for_each_sum(chunk, terms, ended, [](T& term, T& sum) {
      sum += term;
      term = 0;
    });
  }

  /// Calls visit(sum, row_at(i)[d]) for this thread's sums of a chunk. Skips sums that lie beyond the team's rows or
  /// beyond the head, and rows for which row_at() returns null.
  template <class RowAt, class Visit>
  KOKKOS_FUNCTION void for_each_sum(int chunk, Output& sums, const RowAt& row_at, const Visit& visit) const {
    Tile::template for_each_block<Tile::columns>(team, [&](int slot, int row, int column) {
      ANNULUS_UNROLL
      for (int r = 0; r < Tile::block_rows; ++r) {
        if (row + r >= rows) continue;
        T* const there = row_at(row + r);
        if (there == nullptr) continue;
        ANNULUS_UNROLL
        for (int c = 0; c < Tile::block_columns; ++c) {
          const int d = chunk * Tile::columns + Tile::output_column(column, c);
          if (d < head_dim) visit(sums[slot].of[r][c], there[d]);
        }
      }
    });
  }
};

}  // namespace annulus::kernels::device
