#include "annulus/comm/window.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::comm {

std::string window_defect(std::string_view library) {
  // In Debian 12 `library` begins "MPICH Version:\t4.0.2\nMPICH Release date: ...\nMPICH Device:\tch4:ucx\n". In this
  // version read requests complete before the rows arrive, some strided rows are wrong even after a flush, and no row
  // moves while its owner is outside MPI.
  if (library.find("MPICH Version:\t4.0") == std::string_view::npos) return "";
  return "MPICH 4.0 ends reads from windows before the rows have arrived";
}

std::string window_defect() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  return window_defect(std::string_view(text.data(), std::size_t(length)));
}

Window::Window(const Communicator& comm, std::string purpose, Index bytes)
    : comm_(comm), purpose_(std::move(purpose)), bytes_(bytes) {
  comm.barrier();  // here, unlike inside MPI_Win_allocate, the watchdog sees which rank is missing
  const int made = blocking("MPI_Win_allocate", MPI_Win_allocate, MPI_Aint(bytes), 1, MPI_INFO_NULL, comm.handle(),
                            &data_, &window_);
  if (made != MPI_SUCCESS) {
    core::fail(core::ErrorKind::failure,
               "MPI_Win_allocate of {} bytes for {}: {}; expected an MPI that makes windows between these ranks (Open "
               "MPI: OMPI_MCA_osc chooses how), or another strategy than onesided",
               bytes, purpose_, mpi_error(made));
  }
  core::memory_ledger().add(purpose_, bytes_);
  check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  // One epoch lasts from here to close(). NOCHECK: no rank ever locks exclusively, so MPI need not ask for locks.
  call_mpi("MPI_Win_lock_all", MPI_Win_lock_all, MPI_MODE_NOCHECK, window_);
}

void Window::write(Index offset, const void* data, Index bytes) {
  core::require(offset >= 0 && bytes >= 0 && offset + bytes <= bytes_, [&] {
    return fmt::format("bytes [{}, {}) are written to a window of {} bytes", offset, offset + bytes, bytes_);
  });
  core::copy_to_host(static_cast<std::byte*>(data_) + offset, data, bytes);
}

void Window::clear() {
  if (bytes_ > 0) std::memset(data_, 0, std::size_t(bytes_));
}

void Window::read(Index offset, void* data, Index bytes) const {
  core::require(offset >= 0 && bytes >= 0 && offset + bytes <= bytes_, [&] {
    return fmt::format("bytes [{}, {}) are read from a window of {} bytes", offset, offset + bytes, bytes_);
  });
  core::copy_to_device(data, static_cast<const std::byte*>(data_) + offset, bytes);
}

void Window::publish() {
  check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");  // plain stores become visible to reads
  comm_.barrier();
}

void Window::collect() {
  call_mpi("MPI_Win_flush_all", MPI_Win_flush_all, window_);
  comm_.barrier();
  check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
}

void Window::close() {
  comm_.barrier();  // MPI_Win_free would wait, too, but there the watchdog does not see which rank is missing
  call_mpi("MPI_Win_unlock_all", MPI_Win_unlock_all, window_);
  call_mpi("MPI_Win_free", MPI_Win_free, &window_);
  core::memory_ledger().remove(purpose_, bytes_);
}

WindowAccess::~WindowAccess() {
  // Requests are open here only while an error unwinds. Their rows are about to be freed, and accesses cannot be
  // cancelled, so we wait until the accesses are complete. The window's owner need not do anything for that.
  blocking_quietly("MPI_Waitall", MPI_Waitall, int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
}

void WindowAccess::progress() {
  begin_if_ready();
  if (requests_.empty()) return;
  int done = 0;
  check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done == 0) return;
  requests_.clear();
  watchdog_progress();
}

void WindowAccess::begin_if_ready() {
  if (!begin_ || !rows_->is_loaded()) return;
  const std::function<void()> begin = std::exchange(begin_, nullptr);
  begin();
}

void WindowAccess::wait() {
  const auto complete = [this] {
    progress();
    return requests_.empty() && !begin_;
  };
  wait_until(complete, [this] { return std::vector<Outstanding>{{kind_, owner_, rows_->block().bytes(), call_}}; });
  if (rows_) {
    // By the standard, rows that were read have arrived. An MPI that completes reads too early (window_defect()) could
    // still write into rows that have been freed; the flush prevents that, and costs a read nothing with a correct MPI.
    call_mpi("MPI_Win_flush", MPI_Win_flush, owner_, window_.handle());
  }
  if (rows_ && kind_ == Outstanding::Kind::receive) rows_->store(), rows_->arrive();
  rows_.reset();
}

Index WindowRead::start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& into) {
  core::require(!rows_, [] { return "a read was started before the last one was waited for"; });
  if (into.rows.empty()) return 0;
  const Datatype target = Datatype::runs(runs, into.parts, held, into.row_bytes);
  core::require(target.bytes() == into.bytes(),
                [&] { return fmt::format("{} bytes are read into rows of {} bytes", target.bytes(), into.bytes()); });
  const RowBlock& block = rows_.emplace(into).block();
  owner_ = owner;
  core::BuffersStay::message_starts();
  check_mpi(MPI_Rget(block.first_row(), 1, Datatype::rows(block).handle(), owner, 0, 1, target.handle(),
                     window_.handle(), &requests_.emplace_back(MPI_REQUEST_NULL)),
            call_);
  return target.bytes();
}

void WindowAdd::start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& from,
                      core::Precision precision) {
  core::require(!rows_, [] { return "an addition was started before the last one was waited for"; });
  if (from.rows.empty()) return;
  Index rows = 0;
  for (const RowRun& run : runs) rows += run.count;
  core::require(rows == from.rows.size(),
                [&] { return fmt::format("{} rows are added to {} rows", from.rows.size(), rows); });
  rows_.emplace(from).load();
  owner_ = owner;
  begin_ = [=, this] { add(held, runs, from, precision); };
  begin_if_ready();
}

void WindowAdd::add(Index held, const std::vector<RowRun>& runs, const RowBlock& from, core::Precision precision) {
  MPI_Datatype number = precision == core::Precision::float64 ? MPI_DOUBLE : MPI_FLOAT;
  RowBlock block = rows_->block();
  Index next = block.rows.begin;
  core::BuffersStay::message_starts();
  const BlockingScope inside("MPI_Raccumulate");  // Open MPI's component for UCX waits for a lock of the owner's memory
  for (const RowRun& run : runs) {
    block.rows = {next, next + run.count};
    next += run.count;
    const Datatype source = Datatype::rows(block, number);
    const Datatype target = Datatype::runs({run}, from.parts, held, from.row_bytes, number);
    check_mpi(MPI_Raccumulate(block.first_row(), 1, source.handle(), owner_, 0, 1, target.handle(), MPI_SUM,
                              window_.handle(), &requests_.emplace_back(MPI_REQUEST_NULL)),
              call_);
  }
}

}  // namespace annulus::comm
