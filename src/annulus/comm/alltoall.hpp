// Every rank sends a piece of its array to every rank. For example, an array whose rows were divided among the ranks is
// then divided by columns.
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// A piece of an array (parts, held, row_bytes): the bytes `columns` of each row in `rows`, in every part.
struct Piece {
  std::vector<core::Interval> rows;
  core::Interval columns;

  Index row_count() const;
  bool empty() const { return row_count() == 0 || columns.empty(); }
};

/// Sends piece sends[p] of `from` to rank p, and stores the piece that arrives from rank p in receives[p] of `to`. A
/// rank also sends a piece to itself. Blocking and collective. Empty pieces are not sent. The sender's piece and the
/// receiver's piece have equal sizes. `from` and `to` are used as whole arrays (RowBlock::rows has no effect) and must
/// not overlap.
///
/// Worked example: 2 ranks, rank p holds one row of two bytes, `from` = [a_p b_p]. Rank 0 is to get column 0 of both
/// rows, rank 1 column 1. On rank 0 `sends` is {row 0, column 0}, {row 0, column 1}; `receives` is {row 0, column 0},
/// {row 1, column 0}. Afterwards `to` is [a_0; a_1] on rank 0 and [b_0; b_1] on rank 1.
void alltoall_pieces(const Communicator& comm, const RowBlock& from, const std::vector<Piece>& sends,
                     const RowBlock& to, const std::vector<Piece>& receives);

}  // namespace annulus::comm
