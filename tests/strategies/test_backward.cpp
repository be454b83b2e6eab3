// The backward pass of every strategy of the registry under the settings of the forward test, against the float64
// definition. Each rank checks its own rows of dq, dk and dv. On more than 2 ranks, which share few cores, a seeded
// third of all that, on more than 4 a tenth.
#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// Every other check with a gradient of the LSE.
void check_all(const std::vector<Case>& cases) {
  const int ranks = comm::Communicator(MPI_COMM_WORLD).size();
  for (const Case& one : cases) {
    const Truth truth(one);
    int checks = 0;
    for_every_strategy({one},
                       ranks > 4   ? 10
                       : ranks > 2 ? 3
                                   : 1,
                       [&](const Strategy& strategy, const Case& cut, const comm::Communicator& comm) {
                         check_backward(strategy, cut, truth, comm, checks++ % 2 == 1);
                       });
  }
}

TEST(Backward, SemanticsCausalDocumentsAndGroupedHeads) { check_all(semantics_cases()); }

TEST(Backward, AwkwardShapes) { check_all(awkward_cases()); }

TEST(Backward, EveryStorageType) { check_all(storage_cases()); }

TEST(Backward, DeviceTilesServeEveryStrategyToo) { check_all(device_cases()); }

TEST(Backward, RandomSettings) { check_all(random_cases()); }

}  // namespace
}  // namespace annulus::strategies
