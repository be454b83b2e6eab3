#include "annulus/comm/heartbeat.hpp"

#include <exception>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/record.hpp"

namespace annulus::comm {
namespace {

/// True if the request is complete, or if there is no request.
bool is_done(MPI_Request& request) {
  int done = 1;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

void wait(MPI_Request& request) { blocking_quietly("MPI_Wait", MPI_Wait, &request, MPI_STATUS_IGNORE); }

}  // namespace

Heartbeat::Heartbeat(const Communicator& comm) : comm_(comm), exceptions_(std::uncaught_exceptions()) {
  leaving_.fill(comm.rank() + 1);
  Index* numbers = nullptr;
  agree(comm, [&] {
    call_mpi("MPI_Win_allocate", MPI_Win_allocate, MPI_Aint(entries * sizeof(Index)), int(sizeof(Index)), MPI_INFO_NULL,
             comm.handle(), &numbers, &window_);
  });
  check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  // NOCHECK: no rank ever locks exclusively, so MPI need not ask for locks, which a stopped rank would not grant.
  call_mpi("MPI_Win_lock_all", MPI_Win_lock_all, MPI_MODE_NOCHECK, window_);
  for (Index i = 0; i < entries; ++i) numbers[i] = 0;
  check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
  comm.barrier();  // no rank writes before all numbers are 0
  record().set_beats(numbers + beats);
}

Heartbeat::~Heartbeat() {
  record().set_beats(nullptr);
  if (std::uncaught_exceptions() > exceptions_) return;
  for (MPI_Request& request : changing_) wait(request);
  wait(looking_);
  for (Heart& heart : hearts_) wait(heart.request);
  blocking_quietly("MPI_Win_unlock_all", MPI_Win_unlock_all, window_);
  blocking_quietly("MPI_Win_free", MPI_Win_free, &window_);
}

void Heartbeat::change(Entry entry) {
  MPI_Request& request = changing_[entry];
  if (!is_done(request)) return;
  leaving_[entry] += comm_.size();
  check_mpi(MPI_Rput(&leaving_[entry], 1, MPI_INT64_T, 0, MPI_Aint(entry), 1, MPI_INT64_T, window_, &request),
            "MPI_Rput");
}

void Heartbeat::let_mpi_move() const {
  // Some MPIs move no data when a rank reads its own memory or tests a completed request. A probe for a message makes
  // them move data. We make several probes, because one access has several steps (a connection, a request, an answer).
  for (int turn = 0; turn < 8; ++turn) {
    int found = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_.handle(), &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }
}

const Heartbeat::Numbers& Heartbeat::look() {
  let_mpi_move();
  if (!is_done(looking_)) return known_;
  known_ = arriving_;
  check_mpi(MPI_Rget(arriving_.data(), entries, MPI_INT64_T, 0, 0, entries, MPI_INT64_T, window_, &looking_),
            "MPI_Rget");
  return known_;
}

bool Heartbeat::hear() {
  hearts_.resize(std::size_t(comm_.size()));
  bool beating = false;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    Heart& heart = hearts_[std::size_t(rank)];
    if (rank == comm_.rank() || !is_done(heart.request)) continue;
    if (heart.asked) {
      beating = beating || (heart.known >= 0 && heart.known != heart.arriving);
      heart.known = heart.arriving;
    }
    heart.asked = true;
    check_mpi(MPI_Rget(&heart.arriving, 1, MPI_INT64_T, rank, MPI_Aint(beats), 1, MPI_INT64_T, window_, &heart.request),
              "MPI_Rget");
  }
  return beating;
}

void Heartbeat::forget_beats() {
  for (Heart& heart : hearts_) {
    heart.known = -1;
    heart.asked = false;  // so that the result of a read in flight is forgotten, too
  }
}

}  // namespace annulus::comm
