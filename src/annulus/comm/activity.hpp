// The thread that owns MPI says here what it is doing, so that the watchdog can tell a hang from work and name the
// hang. Without a watchdog all of this takes almost no time.
#pragma once

#include <string>
#include <utility>

namespace annulus::comm {

/// What a rank is doing, since when, and (only if `blocked`) inside which call.
struct Doing {
  enum Activity { working, waiting, blocked };
  Activity activity = working;
  double since = 0;  ///< s, core::wall_seconds()
  std::string what;
};

/// Names what this rank is doing, for the diagnosis of a stalled run: "reading", "hop 2 of 3". Nests.
class Scope {
 public:
  explicit Scope(std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// While this lives, this rank is inside a call that may never return: the call waits for other ranks by its own means,
/// or for a file system. If it takes longer than the time-out, it counts as hung. Nests.
class BlockingScope {
 public:
  /// `what` is the call of MPI ("MPI_Comm_split", always beginning with MPI_), or what is done with which file.
  explicit BlockingScope(std::string what);
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  Doing before_;
};

/// Says that this rank made progress: a request completed, the kernel advanced, a piece of work is done. It is cheap
/// enough for every poll. Long work should call it several times within the time-out: where MPI moves data only inside
/// its calls (TCP), other ranks cannot learn of the work otherwise. Throws Error(failure) when MPI fails.
void watchdog_progress();

/// Calls function(args...), a call of MPI or HDF5 that may block, so that the watchdog sees it, and returns its result.
/// Use it in destructors; elsewhere use blocking(), which also reports progress when the call has returned.
/// tools/check_layout.py finds calls that use neither.
template <class Function, class... Args>
auto blocking_quietly(const char* name, Function* function, Args&&... args) {
  const BlockingScope inside(name);
  return function(std::forward<Args>(args)...);
}

/// Worked example: blocking("MPI_Comm_dup", MPI_Comm_dup, parent, &comm). Throws what watchdog_progress() throws.
template <class Function, class... Args>
auto blocking(const char* name, Function* function, Args&&... args) {
  const auto result = blocking_quietly(name, function, std::forward<Args>(args)...);
  watchdog_progress();
  return result;
}

}  // namespace annulus::comm
