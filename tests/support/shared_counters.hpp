// Numbers in memory that all ranks of a test share. So a rank can watch the others without messages, even while no rank
// calls MPI. All ranks must be on one machine.
#pragma once

#include <mpi.h>

#include <atomic>
#include <new>

#include "annulus/comm/communicator.hpp"

namespace annulus::test {

/// One counter for each rank, 0 at first. All ranks must make and destroy this object together.
class SharedCounters {
 public:
  explicit SharedCounters(const comm::Communicator& comm) {
    const MPI_Aint bytes = comm.is_root() ? MPI_Aint(comm.size() * int(sizeof(Counter))) : 0;
    void* mine = nullptr;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm.handle(), &mine, &window_);
    MPI_Aint size = 0;
    int unit = 0;
    void* root = nullptr;
    MPI_Win_shared_query(window_, 0, &size, &unit, &root);
    counters_ = static_cast<Counter*>(root);
    if (comm.is_root()) {
      for (int r = 0; r < comm.size(); ++r) new (counters_ + r) Counter(0);
    }
    comm.barrier();
  }
  ~SharedCounters() { MPI_Win_free(&window_); }
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  std::atomic<int>& operator[](int rank) { return counters_[rank]; }

 private:
  using Counter = std::atomic<int>;
  static_assert(Counter::is_always_lock_free, "a lock would not be shared");
  MPI_Win window_ = MPI_WIN_NULL;
  Counter* counters_ = nullptr;
};

}  // namespace annulus::test
