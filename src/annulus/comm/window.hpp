// Memory that other ranks read, or add to, by themselves (MPI RMA, passive target): its owner computes on meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"

namespace annulus::comm {

/// Why the windows of an MPI library of this version text cannot be relied on; empty: nothing is known against them.
std::string window_defect(std::string_view library);
/// The same of the library in use. Needs no MPI_Init.
std::string window_defect();

/// Host memory of this rank that every rank of the communicator may read, or add to, between publish() and close(). MPI
/// allocates it: strided reads of memory that was allocated elsewhere were 40 times slower (Open MPI 4.1, 4,096
/// pieces).
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
  /// Fills the window with zero bytes.
  void clear();
  /// Collective: on return every rank may read what any rank has written.
  void publish();
  /// Collective: on return this rank's window holds all that any rank has added to it.
  void collect();
  /// Copies the window's bytes [offset, offset + bytes) to the default execution space's memory.
  void read(Index offset, void* data, Index bytes) const;
  /// Collective: returns when no rank reads any more, the memory is gone.
  void close();

 private:
  const Communicator& comm_;
  std::string purpose_;
  Index bytes_ = 0;
  void* data_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

/// Accesses to another rank's window in flight, and this rank's rows that it reads or writes. Use: start() of a derived
/// class, progress() now and then while computing, wait() before touching the rows.
class WindowAccess {
 public:
  WindowAccess(const WindowAccess&) = delete;
  WindowAccess& operator=(const WindowAccess&) = delete;

  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is in flight.
  void progress();
  /// Returns when MPI is done with this rank's rows and what was read lies there.
  void wait();

 protected:
  WindowAccess(const Window& window, Outstanding::Kind kind, const char* call)
      : window_(window), kind_(kind), call_(call) {}
  ~WindowAccess();
  void begin_if_ready();

  const Window& window_;
  const Outstanding::Kind kind_;
  const char* const call_;
  std::vector<MPI_Request> requests_;
  int owner_ = 0;                // of the window, while an access is in flight
  std::optional<Staged> rows_;   // likewise
  std::function<void()> begin_;  // begins the access when rows_ are loaded; empty: it has begun
};

/// One read from a window.
class WindowRead : public WindowAccess {
 public:
  explicit WindowRead(const Window& window) : WindowAccess(window, Outstanding::Kind::receive, "MPI_Rget") {}

  /// Starts reading from `owner`, whose window begins with an array (into.parts, held, into.row_bytes): of each part
  /// run after run, which become the rows of `into`. Returns the bytes that travel. No rows, no message.
  Index start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& into);
};

/// One addition to a window; after wait() this rank's rows may change, while the sum is there after Window::collect().
/// Several ranks may add to the same number at a time: no addition is lost, their order is not fixed.
class WindowAdd : public WindowAccess {
 public:
  explicit WindowAdd(const Window& window) : WindowAccess(window, Outstanding::Kind::send, "MPI_Raccumulate") {}

  /// Starts adding the rows of `from`, numbers of `precision`, to the runs of the owner's window, laid out as above.
  /// Runs may have rows in common: each is an access of its own, since MPI forbids overlaps inside one.
  void start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& from, core::Precision precision);

 private:
  void add(Index held, const std::vector<RowRun>& runs, const RowBlock& from, core::Precision precision);
};

}  // namespace annulus::comm
