// Every rank sends a piece of an array to every rank: rows change into columns on the way, or columns into rows.
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// The bytes `columns` of the rows in some intervals, interval after interval, in every part of an array.
struct Piece {
  std::vector<core::Interval> rows;
  core::Interval columns;

  Index row_count() const;
  bool empty() const { return row_count() == 0 || columns.empty(); }
};

/// Sends sends[p] of `from` to rank p, and puts what rank p sent at receives[p] of `to`; own pieces are copied.
/// Blocking and collective. An empty piece is no message; sender and receiver must agree on the bytes of each piece.
/// `from` and `to` are used as whole arrays (RowBlock::rows has no effect) and must not overlap.
///
/// Worked example: 2 ranks, rank p holds row p of two columns, `from` = [a_p b_p]. Rank 0 shall get column 0 of both
/// rows, rank 1 column 1. Rank 0 sends {row 0, column 0}, {row 0, column 1} and receives {row 0, column 0}, {row 1,
/// column 0}. Afterwards `to` is [a_0; a_1] on rank 0 and [b_0; b_1] on rank 1.
void alltoall_pieces(const Communicator& comm, const RowBlock& from, const std::vector<Piece>& sends,
                     const RowBlock& to, const std::vector<Piece>& receives);

}  // namespace annulus::comm
