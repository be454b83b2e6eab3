// Every strategy, forward and backward, with all of its messages staged as device memory is: copied late, by queues
// beside the kernels (support/staged.cpp is linked in). A rank that computes with rows before they have been copied, or
// lets go of rows that are still to be copied, gets NaN or wrong numbers. On more than 2 ranks a seeded third of the
// settings.
#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

std::vector<Case> staged_cases() {
  std::vector<Case> cases = device_cases();
  for (const Case& one : awkward_cases()) {
    if (one.name != "heads of 256" && one.name != "heads of 80") cases.push_back(one);
  }
  return cases;
}

int one_in() { return comm::Communicator(MPI_COMM_WORLD).size() > 2 ? 3 : 1; }

TEST(Staged, ForwardIsRight) { for_every_strategy(staged_cases(), one_in(), check); }

TEST(Staged, BackwardIsRight) {
  for (Case one : staged_cases()) {
    const Truth truth(one);
    for (const bool reproducible : {false, true}) {
      if (reproducible && one.problem.backend == kernels::Backend::device) continue;  // tiles of the host give the bits
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
