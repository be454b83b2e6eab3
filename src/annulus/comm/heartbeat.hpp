// A window with two counters on rank 0, `progress` and `alarm`, and one counter on every rank, `beats`. A rank's guard
// increases its beats while the rank works (guard.hpp). Access is one-sided; the counter's rank may be computing.
//
// Counters are written, not added to, and the last write wins. For an addition MPI would lock the numbers (Open MPI's
// UCX component: by a flag in rank 0's memory), and a rank stopped at that moment would make all others spin inside
// MPI. Where MPI moves data only inside its calls (TCP), a number arrives when the counter's rank next calls MPI.
#pragma once

#include <array>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Constructed and destroyed collectively. No other call waits for another rank.
class Heartbeat {
 public:
  enum Entry { progress, alarm, beats, entries };
  using Numbers = std::array<Index, entries>;

  /// Throws an AgreedError with MPI's reason if windows cannot be made.
  explicit Heartbeat(const Communicator& comm);
  /// Collective, except while an exception unwinds on this rank: then the window is not freed.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Writes `progress` or `alarm`: a number > 0 that no rank has written there before. Does nothing while the last
  /// write of the same entry is in flight.
  void change(Entry entry);
  /// If the last read of rank 0's numbers is complete, starts another. Returns the latest numbers, zeros at first.
  const Numbers& look();

  /// Starts a read of every other rank's beats where the last read is complete. True if the beats of some rank changed
  /// between its last two reads. P small reads: only one rank should do this, and seldom.
  bool hear();
  /// The next reads are not compared with earlier ones: a change that happened long ago proves nothing.
  void forget_beats();

 private:
  struct Heart {
    MPI_Request request = MPI_REQUEST_NULL;
    Index arriving = 0;
    Index known = -1;  ///< -1: no answer yet
    bool asked = false;
  };
  /// Lets MPI serve other ranks' reads of this rank's numbers where it moves data only inside its calls.
  void let_mpi_move() const;

  const Communicator& comm_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::array<MPI_Request, alarm + 1> changing_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::array<Index, alarm + 1> leaving_{};  // last numbers written: rank + 1 + k times the number of ranks
  MPI_Request looking_ = MPI_REQUEST_NULL;
  Numbers arriving_{}, known_{};
  std::vector<Heart> hearts_;  // of all ranks; made at the first hear()
  int exceptions_;             // std::uncaught_exceptions() at construction
};

}  // namespace annulus::comm
