// How the thread that owns MPI says what it is doing, so that a hang can be told from honest work, and named. All of
// this does next to nothing while no watchdog is there.
#pragma once

#include <string>
#include <utility>

namespace annulus::comm {

/// What a rank is doing, since when, and for `blocked` inside what.
struct Doing {
  enum Activity { working, waiting, blocked };
  Activity activity = working;
  double since = 0;  ///< s, core::wall_seconds()
  std::string what;
};

/// Names what this rank is about, for the diagnosis: "reading", "hop 2 of 3". Nests.
class Scope {
 public:
  explicit Scope(std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// This rank is inside a call that may never return while this lives: it waits for other ranks by its own means, or for
/// a file system. Longer than the time-out counts as hung. Nests.
class BlockingScope {
 public:
  /// `what` is the call, "MPI_Comm_split" (a call of MPI begins like that), or what is done with which file.
  explicit BlockingScope(std::string what);
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  Doing before_;
};

/// This rank made progress: a request completed, the kernel advanced, a piece of work is done. Cheap enough for every
/// poll. Work that lasts long should say so now and then, at least several times within the time-out: where MPI moves
/// data only inside its calls (TCP), other ranks hear of it in no other way. Throws Error(failure) when MPI fails.
void watchdog_progress();

/// Calls function(args...), a call of MPI or HDF5 that may block, where the watchdog sees it, and returns its result.
/// For destructors; elsewhere blocking() tells others, too, that the call returned. tools/check_layout.py finds calls
/// that are made otherwise.
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
