// MPI windows: memory that other ranks read, or add to, while the memory's owner computes (MPI RMA, passive target).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"

namespace annulus::comm {

/// Returns why windows of the MPI library with this version text are unreliable; empty if no defect is known.
std::string window_defect(std::string_view library);
/// Returns the same for the MPI library in use. Does not need MPI_Init.
std::string window_defect();

/// Host memory of this rank that every rank of the communicator may read, or add to, between publish() and close().
/// MPI allocates the memory, because strided reads of memory from other allocators were 40 times slower (Open MPI 4.1,
/// 4,096 pieces). close() frees the memory; the destructor does not.
class Window {
 public:
  /// Collective; ranks may give different sizes, 0 included. The memory ledger counts the window as `purpose`.
  Window(const Communicator& comm, std::string purpose, Index bytes);
  /// A window that was not closed is never freed, because MPI_Win_free would wait for the other ranks, which may be
  /// waiting for this rank. This happens only while an error unwinds.
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
  /// Collective: waits until no rank reads any more, then frees the memory.
  void close();

 private:
  const Communicator& comm_;
  std::string purpose_;
  Index bytes_ = 0;
  void* data_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

/// Accesses in flight to another rank's window, and this rank's rows that these accesses read or write. Call start() of
/// a derived class. While you compute, call progress() now and then. Call wait() before you touch the rows.
class WindowAccess {
 public:
  WindowAccess(const WindowAccess&) = delete;
  WindowAccess& operator=(const WindowAccess&) = delete;

  /// Lets MPI move data, because many MPIs move data only inside their calls. Cheap when nothing is in flight.
  void progress();
  /// Returns when MPI is done with this rank's rows; rows that were read have then arrived.
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
  int owner_ = 0;                // the rank with the window, while an access is in flight
  std::optional<Staged> rows_;   // this rank's rows, while an access is in flight
  std::function<void()> begin_;  // begins the access once rows_ are loaded; empty: it has begun
};

/// One read from a window.
class WindowRead : public WindowAccess {
 public:
  explicit WindowRead(const Window& window) : WindowAccess(window, Outstanding::Kind::receive, "MPI_Rget") {}

  /// Starts to read from the window of `owner`, which begins with an array (into.parts, held, into.row_bytes). The runs
  /// of each part, one after another, become the rows of `into`. Returns the bytes that travel: 0 if `into` is empty.
  Index start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& into);
};

/// One addition to a window. After wait() this rank's rows may change; the sum is complete after Window::collect().
/// Several ranks may add to the same number at once: no addition is lost, but the order of additions is not fixed.
class WindowAdd : public WindowAccess {
 public:
  explicit WindowAdd(const Window& window) : WindowAccess(window, Outstanding::Kind::send, "MPI_Raccumulate") {}

  /// Starts to add the rows of `from`, numbers of `precision`, to the runs of the owner's window, which begins with an
  /// array (from.parts, held, from.row_bytes). Runs may have rows in common, because each run is its own access, and
  /// MPI forbids overlaps only inside one access.
  void start(int owner, Index held, const std::vector<RowRun>& runs, const RowBlock& from, core::Precision precision);

 private:
  void add(Index held, const std::vector<RowRun>& runs, const RowBlock& from, core::Precision precision);
};

}  // namespace annulus::comm
