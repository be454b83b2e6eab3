// Every strategy in the registry x semantics x causal x documents x GQA x storage type, on all ranks, against the
// float64 definition. Each rank checks its own rows of out and lse. With more than 4 ranks, which share few cores, only
// a tenth of these checks runs, drawn with a seed.
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// Checks the case as it is and, where this is possible, with `reproducible`.
void check_both(const Strategy& strategy, const Case& one, const comm::Communicator& comm) {
  check(strategy, one, comm);
  Case reproducible = one;
  reproducible.problem.reproducible = true;
  reproducible.name += ", reproducible";
  if (strategy.not_reproducible(reproducible.problem, comm.size()).empty()) check(strategy, reproducible, comm);
}

void check_all(const std::vector<Case>& cases) {
  for_every_strategy(cases, comm::Communicator(MPI_COMM_WORLD).size() > 4 ? 10 : 1, check_both);
}

TEST(Forward, SemanticsCausalDocumentsAndGroupedHeads) { check_all(semantics_cases()); }

TEST(Forward, AwkwardShapes) { check_all(awkward_cases()); }

TEST(Forward, Windows) { check_all(window_cases()); }

TEST(Forward, EveryStorageType) { check_all(storage_cases()); }

TEST(Forward, DeviceTilesServeEveryStrategyToo) { check_all(device_cases()); }

TEST(Forward, RowsThatDoNotExist) { check_all(gap_cases()); }

TEST(Forward, Sinks) { check_all(sink_cases()); }

TEST(Forward, RulesOfScores) { check_all(rule_cases()); }

TEST(Forward, ValuesOfAnotherSize) { check_all(value_cases()); }

TEST(Forward, RandomSettings) { check_all(random_cases()); }

}  // namespace
}  // namespace annulus::strategies
