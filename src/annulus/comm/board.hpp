// Two numbers in rank 0's memory that every rank may write and read at any time, without rank 0's help: one that
// changes whenever a rank gets on, and one that tells whether a rank has given up.
//
// Plain writes, the last of which stands: adding would have MPI lock the numbers (Open MPI's component for UCX does so
// by a flag in rank 0's memory), and a rank that is stopped in that moment would leave all others spinning inside MPI.
#pragma once

#include <array>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Made and destroyed by all ranks together. One-sided, because a rank that computes cannot answer questions; no call
/// here waits for another rank.
class Board {
 public:
  enum Entry { progress, alarm, entries };
  using Numbers = std::array<Index, entries>;

  /// Throws an AgreedError naming MPI's reason where windows cannot be made.
  explicit Board(const Communicator& comm);
  /// Collective, but not while an exception ends this rank's part: then the window is left to the end of the program.
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Writes a number, > 0, that no rank has written before; forgotten when the last one is still under way.
  void change(Entry entry);
  /// Asks for the numbers again when the last answer has come. Returns the latest answer, at first zeros.
  const Numbers& look();

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Request changing_ = MPI_REQUEST_NULL, looking_ = MPI_REQUEST_NULL;
  Index leaving_;  // rank + 1, that plus the number of ranks, ...
  const Index ranks_;
  Numbers arriving_{}, known_{};
  int exceptions_;  // under way when the board was made
};

}  // namespace annulus::comm
