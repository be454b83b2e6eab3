// The ranks that compute together.
#pragma once

#if ANNULUS_HAS_MPI
#include <mpi.h>
#endif

#include <memory>

namespace annulus {

namespace comm {
class Communicator;
}

/// All copies share one communicator of MPI. The destructor of the last copy frees this communicator, so all copies
/// must be destroyed before MPI_Finalize.
class Communicator {
 public:
  /// This process alone. Makes no MPI calls, so MPI need not have been started.
  Communicator();
#if ANNULUS_HAS_MPI
  /// A duplicate of the caller's communicator, so that our messages never mix with the caller's; collective. From
  /// then on the kernels of this process use the best instruction set that all ranks of `parent` have. Throws
  /// Error(usage) if MPI is not running, or if `parent` is MPI_COMM_NULL or an intercommunicator.
  explicit Communicator(MPI_Comm parent);
#endif

  int rank() const;
  int size() const;

  /// True if an exception, for example from a progress function, has ended a pass on this rank while messages were in
  /// flight, and after interrupt(). These messages may still arrive, so each later pass is refused, and the
  /// communicator is never freed. All ranks must make a new Communicator, also those on which the pass ended well.
  bool is_interrupted() const;
  /// Makes is_interrupted() true on a rank on which the pass ended well.
  void interrupt() const;

  const comm::Communicator& inner() const { return *inner_; }

 private:
  std::shared_ptr<const comm::Communicator> inner_;
};

}  // namespace annulus
