// The thread that owns MPI (the only thread that calls MPI) notes here what it is doing. So the watchdog can
// distinguish a hang from work, and name the call that hangs. Without a watchdog these functions take almost no time.
#pragma once

#include <string>
#include <utility>

namespace annulus::comm {

/// What a rank is doing. `what` names the call if the rank is blocked; otherwise `what` is empty.
struct Doing {
  enum Activity { working, waiting, blocked };  ///< waiting: in wait_until() (requests.hpp); blocked: inside a call
  Activity activity = working;
  double since = 0;  ///< s, core::wall_seconds()
  std::string what;
};

/// Names what this rank is doing, for the diagnosis of a stalled run: "reading", "hop 2 of 3". Scopes may nest.
class Scope {
 public:
  explicit Scope(std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// While a BlockingScope exists, this rank counts as inside a call that may never return: a call of MPI or NCCL that
/// waits for other ranks, or a file operation. A call longer than the time-out counts as hung. Scopes may nest.
class BlockingScope {
 public:
  /// `what` names the function ("MPI_Comm_split", "ncclCommDestroy") or the file operation ("the reading of in.h5").
  explicit BlockingScope(std::string what);
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  Doing before_;
};

/// Reports that this rank made progress: a request completed, a kernel advanced, or a piece of work is done. This
/// function is cheap enough for loops that poll. Long work should call it several times within the time-out. This
/// function sometimes calls MPI. Where MPI moves data only inside its calls (TCP), other ranks learn only through these
/// calls that this rank works. Throws Error(failure) when MPI fails.
void watchdog_progress();

/// Calls a function of MPI, HDF5 or NCCL that may block, inside a BlockingScope, and returns its result. Destructors,
/// error paths, and code that runs when MPI may not be running use this function. Other code uses blocking(), which
/// also reports progress when the call has returned. tools/check_layout.py finds calls that use neither function.
template <class Function, class... Args>
auto blocking_quietly(const char* name, Function* function, Args&&... args) {
  const BlockingScope inside(name);
  return function(std::forward<Args>(args)...);
}

/// Calls blocking_quietly(), then watchdog_progress(). Example: blocking("MPI_Comm_dup", MPI_Comm_dup, parent, &comm).
template <class Function, class... Args>
auto blocking(const char* name, Function* function, Args&&... args) {
  const auto result = blocking_quietly(name, function, std::forward<Args>(args)...);
  watchdog_progress();
  return result;
}

}  // namespace annulus::comm
