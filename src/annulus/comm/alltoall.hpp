// Every rank sends a piece of an array to every rank: rows change into columns on the way, or columns into rows.
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// Bytes `columns` of the rows of some intervals, in their order, of every part of an array.
struct Piece {
  std::vector<core::Interval> rows;
  core::Interval columns;

  Index row_count() const;
  bool empty() const { return row_count() == 0 || columns.empty(); }
};

/// Sends pieces[p] of `from` to rank p, and puts what rank p sent at pieces[p] of `to`; own pieces are copied. Blocking
/// and collective. An empty piece is no message; sender and receiver must agree on the bytes of each. `from` and `to`
/// are whole arrays (their selected rows are not looked at) that do not overlap.
///
/// Worked example: 2 ranks, rank p holds row p of two columns, `from` = [a_p b_p]. Rank 0 is to hold column 0, rank 1
/// column 1, of both rows: pieces to send {row 0, column 0}, {row 0, column 1}; pieces to receive {row 0, column 0},
/// {row 1, column 0}. Afterwards `to` is [a_0; a_1] on rank 0 and [b_0; b_1] on rank 1.
void alltoall_pieces(const Communicator& comm, const RowBlock& from, const std::vector<Piece>& sends,
                     const RowBlock& to, const std::vector<Piece>& receives);

}  // namespace annulus::comm
