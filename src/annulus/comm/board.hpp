// Numbers that every rank may read at any time, and some write, without the help of the rank whose memory they lie in.
// In rank 0's memory, one that changes whenever a rank gets on, and one that tells whether a rank has given up. In
// every rank's memory, a heartbeat that this rank's guard changes while the rank works (guard.hpp).
//
// Plain writes, the last of which stands: adding would have MPI lock the numbers (Open MPI's component for UCX does so
// by a flag in rank 0's memory), and a rank that is stopped in that moment would leave all others spinning inside MPI.
// Where MPI moves data only inside its calls (TCP), a number arrives when the rank that holds it next calls MPI.
#pragma once

#include <array>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Made and destroyed by all ranks together. One-sided, because a rank that computes cannot answer questions; no call
/// here waits for another rank.
class Board {
 public:
  enum Entry { progress, alarm, heartbeat, entries };
  using Numbers = std::array<Index, entries>;

  /// Throws an AgreedError naming MPI's reason where windows cannot be made.
  explicit Board(const Communicator& comm);
  /// Collective, but not while an exception ends this rank's part: then the window is left to the end of the program.
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Writes `progress` or `alarm`: a number, > 0, that no rank has written there before. Forgotten when the last change
  /// of the same one is still under way.
  void change(Entry entry);
  /// Asks for rank 0's numbers again when the last answer has come. Returns the latest answer, at first zeros.
  const Numbers& look();

  /// Asks every other rank for its heartbeat, where the last answer has come. True when one of them differs from the
  /// answer before. P small reads: for one rank, and seldom.
  bool hear();
  /// The next answers are the first: a change since the last time that somebody asked tells nothing.
  void forget_heartbeats();

 private:
  struct Heart {
    MPI_Request request = MPI_REQUEST_NULL;
    Index arriving = 0;
    Index known = -1;  ///< -1: no answer yet
    bool asked = false;
  };
  /// Serves other ranks' looks at this rank's numbers, where MPI moves data only inside its calls.
  void let_mpi_move() const;

  const Communicator& comm_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::array<MPI_Request, alarm + 1> changing_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::array<Index, alarm + 1> leaving_{};  // rank + 1, that plus the number of ranks, ...
  MPI_Request looking_ = MPI_REQUEST_NULL;
  Numbers arriving_{}, known_{};
  std::vector<Heart> hearts_;  // of all ranks; made when first asked for
  int exceptions_;             // under way when the board was made
};

}  // namespace annulus::comm
