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

/// All copies use one communicator. The last copy frees the communicator when it is destroyed, which must happen before
/// MPI_Finalize.
class Communicator {
 public:
  /// This process alone. Makes no MPI calls, so MPI need not have been started.
  Communicator();
#if ANNULUS_HAS_MPI
  /// A duplicate of the caller's communicator, so that messages never mix with the caller's; collective. From then on
  /// the kernels of this process use the best instruction set that all ranks of `parent` have. Throws Error.
  explicit Communicator(MPI_Comm parent);
#endif

  int rank() const;
  int size() const;

  const comm::Communicator& inner() const { return *inner_; }

 private:
  std::shared_ptr<const comm::Communicator> inner_;
};

}  // namespace annulus
