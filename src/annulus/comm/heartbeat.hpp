// A Heartbeat is an MPI window. It has two numbers on rank 0, `progress` and `alarm`, and a counter on every rank,
// `beats`. A rank's guard increases the rank's `beats` while the rank works (guard.hpp). The rank itself increases them
// when a call that may block has returned, except during a wait (record.hpp). Access is one-sided, because the rank
// whose numbers are read may be computing.
//
// Ranks write new values to rank 0's numbers; the last write wins. Ranks do not add to the numbers, because for an
// addition MPI would lock them (Open MPI's UCX component: by a flag in rank 0's memory). If a rank were stopped while
// it held the lock, all other ranks would spin inside MPI. Where MPI moves data only inside its calls (TCP), a write
// takes effect at rank 0's next MPI call.
#pragma once

#include <array>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// The constructor and the destructor are collective; no other function waits for another rank.
class Heartbeat {
 public:
  enum Entry { progress, alarm, beats, entries };
  using Numbers = std::array<Index, entries>;

  /// Throws an AgreedError with MPI's reason if windows cannot be made.
  explicit Heartbeat(const Communicator& comm);
  /// Collective, unless an exception unwinds on this rank: then the window is not freed.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Writes to `progress` or `alarm` a number > 0 that no rank has written there before. Does nothing while this rank's
  /// last write to the same number is in flight.
  void change(Entry entry);
  /// If the last read of rank 0's numbers is complete, starts another read. Returns the latest numbers, zeros at first.
  const Numbers& look();

  /// Starts a read of every other rank's beats, except where the last read is still in flight. Returns true if a read
  /// that has completed since the last call gave another number than the read before it from the same rank. This
  /// function makes P - 1 reads, so only one rank should call it, and seldom.
  bool hear();
  /// Forgets the numbers read so far, because a difference from a number read long ago does not show that the rank
  /// works now.
  void forget_beats();

 private:
  struct Heart {
    MPI_Request request = MPI_REQUEST_NULL;
    Index arriving = 0;
    Index known = -1;    ///< -1: no number to compare with
    bool asked = false;  ///< true if a read has been started since forget_beats()
  };
  /// Lets MPI serve other ranks' reads of this rank's numbers, where MPI moves data only inside its calls.
  void let_mpi_move() const;

  const Communicator& comm_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::array<MPI_Request, alarm + 1> changing_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::array<Index, alarm + 1> leaving_{};  // last numbers written: rank + 1 + k P, which no other rank writes
  MPI_Request looking_ = MPI_REQUEST_NULL;
  Numbers arriving_{}, known_{};
  std::vector<Heart> hearts_;  // [rank]; made at the first hear()
  int exceptions_;             // std::uncaught_exceptions() at construction
};

}  // namespace annulus::comm
