#include "annulus/comm/window.hpp"

#include <utility>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::comm {

Window::Window(const Communicator& comm, std::string purpose, Index bytes)
    : comm_(comm), purpose_(std::move(purpose)), bytes_(bytes) {
  check_mpi(MPI_Win_allocate(MPI_Aint(bytes), 1, MPI_INFO_NULL, comm.handle(), &data_, &window_), "MPI_Win_allocate");
  core::memory_ledger().add(purpose_, bytes_);
  check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  // One epoch from here to close(): nobody ever locks exclusively, so no lock needs to be asked for.
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
}

void Window::write(Index offset, const void* data, Index bytes) {
  core::require(offset >= 0 && bytes >= 0 && offset + bytes <= bytes_, [&] {
    return fmt::format("bytes [{}, {}) are written to a window of {}", offset, offset + bytes, bytes_);
  });
  core::copy_to_host(static_cast<std::byte*>(data_) + offset, data, bytes);
}

void Window::publish() {
  check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");  // plain stores become visible to reads
  comm_.barrier();
}

void Window::close() {
  comm_.barrier();  // MPI_Win_free waits for the others, too, but where the watchdog could not tell why
  const Blocked blocked;
  check_mpi(MPI_Win_unlock_all(window_), "MPI_Win_unlock_all");
  check_mpi(MPI_Win_free(&window_), "MPI_Win_free");
  core::memory_ledger().remove(purpose_, bytes_);
}

WindowRead::~WindowRead() {
  // Open only when an error unwinds. A read cannot be withdrawn, and its target is about to be freed; it ends without
  // the owner's help.
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

Index WindowRead::start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& into) {
  core::require(!incoming_, [] { return "a read was started before the last one was waited for"; });
  if (into.rows.empty()) return 0;
  const Datatype target = Datatype::runs(runs, into.parts, held, into.row_bytes);
  core::require(target.bytes() == into.bytes(),
                [&] { return fmt::format("{} bytes are read into {}", target.bytes(), into.bytes()); });
  const RowBlock& block = incoming_.emplace(into).block();
  owner_ = owner;
  check_mpi(MPI_Rget(block.first_row(), 1, Datatype::rows(block).handle(), owner, 0, 1, target.handle(),
                     window_.handle(), &request_),
            "MPI_Rget");
  return target.bytes();
}

void WindowRead::progress() {
  if (request_ == MPI_REQUEST_NULL) return;
  int done = 0;
  check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done != 0) watchdog_progress();
}

void WindowRead::wait() {
  const auto complete = [this] {
    progress();
    return request_ == MPI_REQUEST_NULL;
  };
  wait_until(complete, [this] {
    return std::vector<Outstanding>{{Outstanding::Kind::receive, owner_, incoming_->block().bytes(), "MPI_Rget"}};
  });
  if (incoming_) incoming_->store();
  incoming_.reset();
}

}  // namespace annulus::comm
