// Two numbers in rank 0's memory that every rank may add to and read at any time, without rank 0's help: how far the
// job has come, and whether a rank has given up.
#pragma once

#include <array>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Made and destroyed by all ranks together. One-sided, because a rank that computes cannot answer questions; no call
/// here waits for another rank.
class Board {
 public:
  enum Entry { progress, alarm, entries };

  explicit Board(const Communicator& comm);
  /// Collective, but not while an exception ends this rank's part: then the window is left to the end of the program.
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Adds one; forgotten when the last addition is still under way.
  void add(Entry entry);
  /// Asks for the numbers again when the last answer has come. Returns the latest answer.
  const std::array<Index, entries>& look();

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Request adding_ = MPI_REQUEST_NULL, looking_ = MPI_REQUEST_NULL;
  std::array<Index, entries> arriving_{}, known_{};
  int exceptions_;  // under way when the board was made
};

}  // namespace annulus::comm
