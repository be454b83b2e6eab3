// Heartbeat: a window on rank 0 with two counters, progress and alarm, and on every rank one of beats, which its guard
// counts while the rank works (guard.hpp). Access is one-sided; the rank that holds a counter may be computing.
//
// Plain writes, the last of which stands: adding would have MPI lock the numbers (Open MPI's component for UCX does so
// by a flag in rank 0's memory), and a rank that is stopped in that moment would leave all others spinning inside MPI.
// Where MPI moves data only inside its calls (TCP), a number arrives when the rank that holds it next calls MPI.
#pragma once

#include <array>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Made and destroyed collectively. No call here waits for another rank.
class Heartbeat {
 public:
  enum Entry { progress, alarm, beats, entries };
  using Numbers = std::array<Index, entries>;

  /// Throws an AgreedError naming MPI's reason where windows cannot be made.
  explicit Heartbeat(const Communicator& comm);
  /// Collective, but not while an exception ends this rank's part: then the window is left to the end of the program.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Writes `progress` or `alarm`: a number, > 0, that no rank has written there before. Forgotten when the last change
  /// of the same one is still in flight.
  void change(Entry entry);
  /// Asks for rank 0's numbers again when the last answer has come. Returns the latest answer, at first zeros.
  const Numbers& look();

  /// Asks every other rank for its beats, where the last answer has come. True when one of them differs from the
  /// answer before. P small reads: for one rank, and seldom.
  bool hear();
  /// The next answers are the first: a change since the last time that somebody asked tells nothing.
  void forget_beats();

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
  int exceptions_;             // under way when it was made
};

}  // namespace annulus::comm
