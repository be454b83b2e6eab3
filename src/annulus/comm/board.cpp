#include "annulus/comm/board.hpp"

#include <exception>

namespace annulus::comm {
namespace {

constexpr Index one = 1;

/// True when the request is complete, or there is none.
bool is_done(MPI_Request& request) {
  int done = 1;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

Board::Board(const Communicator& comm) : exceptions_(std::uncaught_exceptions()) {
  const MPI_Aint bytes = comm.is_root() ? MPI_Aint(entries * sizeof(Index)) : 0;
  Index* numbers = nullptr;
  check_mpi(MPI_Win_allocate(bytes, int(sizeof(Index)), MPI_INFO_NULL, comm.handle(), &numbers, &window_),
            "MPI_Win_allocate");
  check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  check_mpi(MPI_Win_lock_all(0, window_), "MPI_Win_lock_all");
  if (comm.is_root()) {
    for (Index i = 0; i < entries; ++i) numbers[i] = 0;
    check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
  }
  comm.barrier();  // nobody adds before the numbers are 0
}

Board::~Board() {
  if (std::uncaught_exceptions() > exceptions_) return;
  MPI_Wait(&adding_, MPI_STATUS_IGNORE);
  MPI_Wait(&looking_, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

void Board::add(Entry entry) {
  if (!is_done(adding_)) return;
  check_mpi(MPI_Raccumulate(&one, 1, MPI_INT64_T, 0, MPI_Aint(entry), 1, MPI_INT64_T, MPI_SUM, window_, &adding_),
            "MPI_Raccumulate");
}

const std::array<Index, Board::entries>& Board::look() {
  if (!is_done(looking_)) return known_;
  known_ = arriving_;
  // An atomic read: MPI_NO_OP returns what is there.
  check_mpi(MPI_Rget_accumulate(nullptr, 0, MPI_INT64_T, arriving_.data(), entries, MPI_INT64_T, 0, 0, entries,
                                MPI_INT64_T, MPI_NO_OP, window_, &looking_),
            "MPI_Rget_accumulate");
  return known_;
}

}  // namespace annulus::comm
