// The backward pass of every strategy in the registry, for the cases of the forward test, against the float64
// definition. Each rank checks its own rows of dq, dk and dv. With more than 2 ranks, which share few cores, only a
// third of these checks runs, drawn with a seed; with more than 4 ranks a tenth.
#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// Every second check also has a gradient of the LSE as input.
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

TEST(Backward, Windows) { check_all(window_cases()); }

TEST(Backward, EveryStorageType) { check_all(storage_cases()); }

TEST(Backward, DeviceTilesServeEveryStrategyToo) { check_all(device_cases()); }

TEST(Backward, RowsThatDoNotExist) { check_all(gap_cases()); }

TEST(Backward, Sinks) { check_all(sink_cases()); }

TEST(Backward, RulesOfScores) { check_all(rule_cases()); }

TEST(Backward, ValuesOfAnotherSize) { check_all(value_cases()); }

TEST(Backward, RandomSettings) { check_all(random_cases()); }

/// The same cases with `reproducible`: other code then adds up the gradients. Results and costs are checked;
/// test_reproducible.cpp compares bits.
void check_reproducible(const std::vector<Case>& cases) {
  const int ranks = comm::Communicator(MPI_COMM_WORLD).size();
  for (Case one : cases) {
    one.problem.reproducible = one.problem.gradients = true;
    const Truth truth(one);
    int checks = 0;
    for_every_strategy({one}, ranks > 2 ? 3 : 1,
                       [&](const Strategy& strategy, const Case& cut, const comm::Communicator& comm) {
                         if (!why_not_reproducible(strategy, cut.problem, comm.size()).empty()) return;
                         check_backward(strategy, cut, truth, comm, checks++ % 2 == 1);
                       });
  }
}

TEST(BackwardInOrder, SemanticsCausalDocumentsAndGroupedHeads) { check_reproducible(semantics_cases()); }

TEST(BackwardInOrder, AwkwardShapes) { check_reproducible(awkward_cases()); }

TEST(BackwardInOrder, Windows) { check_reproducible(window_cases()); }

TEST(BackwardInOrder, EveryStorageType) { check_reproducible(storage_cases()); }

// Device tiles need no panels of the host's kernels. The memory prediction includes such panels: it is an upper bound.
TEST(BackwardInOrder, DeviceTilesServeEveryStrategyToo) { check_reproducible(device_cases()); }

TEST(BackwardInOrder, RowsThatDoNotExist) { check_reproducible(gap_cases()); }

TEST(BackwardInOrder, Sinks) { check_reproducible(sink_cases()); }

TEST(BackwardInOrder, RulesOfScores) { check_reproducible(rule_cases()); }

TEST(BackwardInOrder, ValuesOfAnotherSize) { check_reproducible(value_cases()); }

TEST(BackwardInOrder, RandomSettings) { check_reproducible(random_cases()); }

}  // namespace
}  // namespace annulus::strategies
