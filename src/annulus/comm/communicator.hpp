// Our own communicator, which checks every return code. No other room calls MPI.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/types.hpp"

namespace annulus::comm {

using core::Index;

/// MPI's text for an error.
std::string mpi_error(int code);
/// Throws Error(failure) with MPI's text if `code` is not MPI_SUCCESS. `what` names the call.
void check_mpi(int code, const char* what);

/// Calls function(args...), a call of MPI that may block, so that the watchdog sees it, and checks its return code.
template <class Function, class... Args>
void call_mpi(const char* name, Function* function, Args&&... args) {
  check_mpi(blocking(name, function, std::forward<Args>(args)...), name);
}

/// Owns a duplicate of a communicator. MPI returns errors of its calls instead of ending the job. Not copyable.
class Communicator {
 public:
  /// Only this process: calls no function of MPI, so MPI need not have been started.
  Communicator() = default;
  explicit Communicator(MPI_Comm parent);
  /// Collective, except while an exception unwinds on this rank. Then the communicator is not freed, since freeing it
  /// would wait for ranks that may be waiting for this one.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// A communicator of the ranks that give the same colour, in the order of their ranks here; collective.
  Communicator split(int colour) const;
  /// How many ranks, this one included, share this machine's memory; collective.
  int ranks_of_node() const;
  /// Sum over the ranks of this machine; collective.
  Index sum_of_node(Index value) const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  /// Whether it was made without MPI.
  bool is_alone() const { return comm_ == MPI_COMM_NULL; }
  /// For HDF5 and for the rest of this room; MPI_COMM_NULL if it was made without MPI.
  MPI_Comm handle() const { return comm_; }

  void barrier() const;
  Index sum(Index value) const;
  Index max(Index value) const;
  double max(double value) const;
  /// Element `rank` of the result is that rank's value; on every rank.
  std::vector<Index> gather_all(Index value) const;
  std::vector<double> gather_all(double value) const;
  std::vector<std::string> gather_all(const std::string& text) const;
  /// All ranks give equally many numbers; rank 0 gets those of rank 0, rank 1, ..., the others get nothing.
  std::vector<double> gather_to_root(const std::vector<double>& values) const;
  /// Replaces every number by its sum over the ranks, which give equally many numbers.
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
  int exceptions_ = 0;  // std::uncaught_exceptions() at construction
};

/// An error that every rank knows and throws: so the program can end on all ranks together, with one message.
class AgreedError : public core::Error {
 public:
  using core::Error::Error;
};

/// Runs `work` on every rank; then all ranks learn whether one of them failed. If so, every rank throws the error of
/// the lowest failing rank, with "rank R: " in front unless all ranks failed alike. So no rank waits in a collective
/// for a failed one, as long as `work` itself makes matching collective calls until its first failure.
template <class Work>
void agree(const Communicator& comm, Work&& work);

/// How agree() exchanges failures: `kind` is 0 if this rank did not fail.
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
