#include "annulus/comm/board.hpp"

#include <exception>

namespace annulus::comm {
namespace {

/// True when the request is complete, or there is none.
bool is_done(MPI_Request& request) {
  int done = 1;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

Board::Board(const Communicator& comm)
    : leaving_(comm.rank() + 1), ranks_(comm.size()), exceptions_(std::uncaught_exceptions()) {
  const MPI_Aint bytes = comm.is_root() ? MPI_Aint(entries * sizeof(Index)) : 0;
  Index* numbers = nullptr;
  agree(comm, [&] {
    check_mpi(MPI_Win_allocate(bytes, int(sizeof(Index)), MPI_INFO_NULL, comm.handle(), &numbers, &window_),
              "MPI_Win_allocate");
  });
  check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  check_mpi(MPI_Win_lock_all(0, window_), "MPI_Win_lock_all");
  if (comm.is_root()) {
    for (Index i = 0; i < entries; ++i) numbers[i] = 0;
    check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
  }
  comm.barrier();  // nobody writes before the numbers are 0
}

Board::~Board() {
  if (std::uncaught_exceptions() > exceptions_) return;
  MPI_Wait(&changing_, MPI_STATUS_IGNORE);
  MPI_Wait(&looking_, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

void Board::change(Entry entry) {
  if (!is_done(changing_)) return;
  leaving_ += ranks_;
  check_mpi(MPI_Rput(&leaving_, 1, MPI_INT64_T, 0, MPI_Aint(entry), 1, MPI_INT64_T, window_, &changing_), "MPI_Rput");
}

const Board::Numbers& Board::look() {
  if (!is_done(looking_)) return known_;
  known_ = arriving_;
  check_mpi(MPI_Rget(arriving_.data(), entries, MPI_INT64_T, 0, 0, entries, MPI_INT64_T, window_, &looking_),
            "MPI_Rget");
  return known_;
}

}  // namespace annulus::comm
