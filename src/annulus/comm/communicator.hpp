// A communicator of our own, with every return code checked. The comm room is the only one that calls MPI.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/types.hpp"

namespace annulus::comm {

using core::Index;

/// MPI's own words for an error.
std::string mpi_error(int code);
/// Throws Error(failure) with MPI's own words when `code` is not MPI_SUCCESS. `what` names the call.
void check_mpi(int code, const char* what);

/// Calls function(args...), a call of MPI that may block, where the watchdog sees it, and checks its code.
template <class Function, class... Args>
void call_mpi(const char* name, Function* function, Args&&... args) {
  check_mpi(blocking(name, function, std::forward<Args>(args)...), name);
}

/// Owns a duplicate of a communicator, with errors returned instead of aborting. Not copyable.
class Communicator {
 public:
  /// This process alone: calls nothing of MPI, which need not have been started.
  Communicator() = default;
  explicit Communicator(MPI_Comm parent);
  /// Collective, but not while an error ends this rank's part: the communicator is then left to the end of the program,
  /// since freeing it would wait for ranks that may be waiting for this one.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The ranks that give the same colour, in the order of their ranks here; collective.
  Communicator split(int colour) const;
  /// Ranks that share a machine's memory with this one; collective.
  int ranks_of_node() const;
  /// Sum over these ranks; collective.
  Index sum_of_node(Index value) const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  /// It was made without MPI.
  bool is_alone() const { return comm_ == MPI_COMM_NULL; }
  /// For handing to HDF5, and to the rest of this room; MPI_COMM_NULL where it is alone.
  MPI_Comm handle() const { return comm_; }

  void barrier() const;
  Index sum(Index value) const;
  Index max(Index value) const;
  double max(double value) const;
  /// Element `rank` of the result is that rank's value; on every rank.
  std::vector<Index> gather_all(Index value) const;
  std::vector<double> gather_all(double value) const;
  std::vector<std::string> gather_all(const std::string& text) const;
  /// Every rank gives equally many numbers; rank 0 gets them one rank after another, the others nothing.
  std::vector<double> gather_to_root(const std::vector<double>& values) const;
  /// Every number becomes its sum over the ranks, which give equally many.
  void add_up(std::vector<double>& values) const;
  void add_up(std::vector<Index>& values) const;
  std::string broadcast(const std::string& from_root) const;

 private:
  struct Owned {
    MPI_Comm handle;
  };
  explicit Communicator(Owned owned);
  Communicator node() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int exceptions_ = 0;  // under way when it was made
};

/// An error every rank knows of and throws alike: the program can end in good order, with one message.
class AgreedError : public core::Error {
 public:
  using core::Error::Error;
};

/// Runs `work` on every rank and lets all ranks learn whether one failed: if so, every rank throws the error of the
/// lowest failing rank, with "rank R: " in front where not all ranks failed alike. So a bad rank never leaves the
/// others waiting in a collective, as long as `work` itself keeps its collective calls matched until its first failure.
template <class Work>
void agree(const Communicator& comm, Work&& work);

/// The exchange of failures behind agree(): `kind` is 0 when this rank is well.
void agree_on_failure(const Communicator& comm, int kind, const std::string& message);

template <class Work>
void agree(const Communicator& comm, Work&& work) {
  int kind = 0;
  std::string message;
  try {
    work();
  } catch (const core::Error& error) {
    kind = int(error.kind());
    message = error.what();
  } catch (const std::exception& error) {
    kind = int(core::ErrorKind::failure);
    message = error.what();
  }
  agree_on_failure(comm, kind, message);
}

}  // namespace annulus::comm
