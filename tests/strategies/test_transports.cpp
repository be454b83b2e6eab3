// Every strategy, forward and backward, with rows that travel as if they were in device memory: one program is linked
// with support/staged.cpp, one with support/by_nccl.cpp. Copies and messages happen late, while kernels run. A rank
// that reads rows before they have arrived, or reuses memory of rows that have not been sent, gets NaN or wrong
// numbers. With more than 2 ranks only a third of the checks runs, drawn with a seed.
#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

std::vector<Case> cases_of_all_kinds() {
  std::vector<Case> cases = device_cases();
  for (const Case& one : awkward_cases()) {
    if (one.name != "heads of 256" && one.name != "heads of 80") cases.push_back(one);
  }
  return cases;
}

int one_in() { return comm::Communicator(MPI_COMM_WORLD).size() > 2 ? 3 : 1; }

TEST(Transport, ForwardIsRight) { for_every_strategy(cases_of_all_kinds(), one_in(), check); }

TEST(Transport, BackwardIsRight) {
  for (Case one : cases_of_all_kinds()) {
    const Truth truth(one);
    for (const bool reproducible : {false, true}) {
      if (reproducible && one.problem.backend == kernels::Backend::device) continue;  // not with device tiles
      one.problem.reproducible = one.problem.gradients = reproducible;
      for_every_strategy({one}, one_in(),
                         [&](const Strategy& strategy, const Case& cut, const comm::Communicator& comm) {
                           if (reproducible && !why_not_reproducible(strategy, cut.problem, comm.size()).empty())
                             return;
                           check_backward(strategy, cut, truth, comm, false);
                         });
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
