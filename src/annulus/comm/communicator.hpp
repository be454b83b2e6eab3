// A communicator class that checks the return code of every MPI call. Only the files of this folder call MPI.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/types.hpp"

namespace annulus::comm {

using core::Index;

/// Returns MPI's text for an error code.
std::string mpi_error(int code);
/// Throws Error(failure) with MPI's text if `code` is not MPI_SUCCESS. `what` names the call.
void check_mpi(int code, const char* what);

/// Calls an MPI function that may block, through blocking() (activity.hpp), and checks its return code.
template <class Function, class... Args>
void call_mpi(const char* name, Function* function, Args&&... args) {
  check_mpi(blocking(name, function, std::forward<Args>(args)...), name);
}

/// Owns a duplicate or a part of a communicator. An MPI call on this communicator that fails returns an error and does
/// not end the job.
class Communicator {
 public:
  /// A communicator of this process alone. It calls no function of MPI, so MPI need not have been started.
  Communicator() = default;
  /// Collective. Throws Error(usage) on this rank if MPI is not running, or if `parent` is not an intracommunicator.
  explicit Communicator(MPI_Comm parent);
  /// Collective, except while an exception unwinds on this rank, or after abandon(). In these cases the communicator is
  /// not freed, because MPI_Comm_free may wait for the other ranks, and they may be waiting for this rank.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Returns the communicator of the ranks that give the same colour; these ranks keep their order. Collective.
  Communicator split(int colour) const;
  /// Returns how many ranks, this one included, share this machine's memory. Collective.
  int ranks_of_node() const;
  /// Returns the sum over the ranks of this machine. Collective.
  Index sum_of_node(Index value) const;

  /// Says that an exception ended work on this rank, or on another, while messages were in flight. These messages may
  /// still arrive and match receives of later work, so nothing may use this communicator any more. The destructor then
  /// does not free the communicator.
  void abandon() const { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  /// True if this communicator has only this process and was made without MPI.
  bool is_alone() const { return comm_ == MPI_COMM_NULL; }
  /// HDF5 and the other files of this folder use the handle. MPI_COMM_NULL if is_alone().
  MPI_Comm handle() const { return comm_; }

  /// The following functions are collective, and return the same on every rank unless their comments say otherwise.
  void barrier() const;
  Index sum(Index value) const;
  Index max(Index value) const;
  double max(double value) const;
  /// Gathers one value of every rank on every rank: element r of the result is the value of rank r.
  std::vector<Index> gather_all(Index value) const;
  std::vector<double> gather_all(double value) const;
  std::vector<std::string> gather_all(const std::string& text) const;
  /// All ranks give equally many numbers. Rank 0 gets the numbers of rank 0, then those of rank 1, and so on. Other
  /// ranks get an empty vector.
  std::vector<double> gather_to_root(const std::vector<double>& values) const;
  /// Replaces values[i] by its sum over the ranks, for each i; all ranks give equally many values.
  void add_up(std::vector<double>& values) const;
  void add_up(std::vector<Index>& values) const;
  /// Returns rank 0's text; the argument of other ranks is not used.
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
  mutable bool is_abandoned_ = false;
};

/// An error that all ranks throw with the same text, so that the program can end on all ranks with one message.
class AgreedError : public core::Error {
 public:
  using core::Error::Error;
};

/// Runs `work` on every rank; then all ranks exchange whether their `work` failed. If `work` failed on any rank, all
/// ranks throw the error of the lowest failing rank, with "rank R: " in front unless all ranks failed. So no rank waits
/// in a collective for a rank that failed, provided that no rank calls a collective inside its `work` after another
/// rank's `work` has failed.
template <class Work>
void agree(const Communicator& comm, Work&& work);

/// The exchange inside agree(): `kind` is the core::ErrorKind of this rank's failure, or 0 if this rank did not fail.
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
