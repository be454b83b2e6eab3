// Memory that other ranks read by themselves (MPI RMA, passive target): its owner computes on meanwhile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/staging.hpp"

namespace annulus::comm {

/// Host memory of this rank that every rank of the communicator may read between publish() and close(). MPI allocates
/// it: strided reads of memory that was allocated elsewhere were 40 times slower (Open MPI 4.1, 4,096 pieces).
class Window {
 public:
  /// Collective; ranks may offer different sizes, also none. Counted in the memory ledger under `purpose`.
  Window(const Communicator& comm, std::string purpose, Index bytes);
  /// A window that was never closed is left to the end of the job: an error unwinds here, and freeing would wait for
  /// ranks that may be waiting for this one.
  ~Window() = default;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Index bytes() const { return bytes_; }
  MPI_Win handle() const { return window_; }

  /// Copies `bytes` from the default execution space's memory to the window's bytes [offset, offset + bytes).
  void write(Index offset, const void* data, Index bytes);
  /// Collective: on return every rank may read what any rank has written.
  void publish();
  /// Collective: returns when no rank reads any more, the memory is gone.
  void close();

 private:
  const Communicator& comm_;
  std::string purpose_;
  Index bytes_ = 0;
  void* data_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

/// One read from a window. Use: start(), progress() now and then while computing, wait() before touching the rows.
class WindowRead {
 public:
  explicit WindowRead(const Window& window) : window_(window) {}
  ~WindowRead();
  WindowRead(const WindowRead&) = delete;
  WindowRead& operator=(const WindowRead&) = delete;

  /// Starts reading from `owner`, whose window begins with an array (into.parts, held, into.row_bytes): of each part
  /// run after run, which become the rows of `into`. Returns the bytes that travel. No rows, no message.
  Index start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& into);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is under way.
  void progress();
  /// Returns when the rows lie where they belong.
  void wait();

 private:
  const Window& window_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int owner_ = 0;                   // of the read under way
  std::optional<Staged> incoming_;  // while a read is under way
};

}  // namespace annulus::comm
