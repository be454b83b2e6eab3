// A schedule is made once: what is predicted, printed and executed reads the same plans.
#include <gtest/gtest.h>

#include "annulus/comm/communicator.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// A strategy whose plans are counted as they are made.
Strategy counted(const Strategy& strategy, int& made) {
  StrategyEntry entry = strategy.entry();
  const MakePlans forward = entry.forward, backward = entry.backward;
  entry.forward = [=, &made](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    ++made;
    return forward(rounds, partition);
  };
  entry.backward = [=, &made](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    ++made;
    return backward(rounds, partition);
  };
  return Strategy(entry);
}

TEST(Schedule, IsMadeOnceAPassAndReadByAll) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  Case one = semantics_cases().front();
  one.problem.gradients = true;
  const AttentionCase numbers = one.numbers();
  for (const Strategy* known : available()) {
    SCOPED_TRACE(known->name());
    int made = 0;
    const Strategy strategy = counted(*known, made);
    const pattern::Partition partition = strategy.partition(one.problem, comm.size());
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const auto forward = strategy.forward_schedule(one.problem, partition);
    const Prediction predicted = forward->predict(comm.rank());
    Tensors tensors = take_tensors(numbers, one.problem, rows);
    const core::RankMetrics went = run_forward_pass(*forward, comm, tensors, {});
    EXPECT_EQ(made, 1) << "forward";
    EXPECT_EQ(went.total().bytes_sent, predicted.bytes_sent);

    const auto backward = strategy.backward_schedule(one.problem, partition);
    const Prediction back = backward->predict(comm.rank());
    tensors.dout = core::Buffer("dout", tensors.out.bytes());
    core::fill_zero(tensors.dout.data(), tensors.dout.bytes());
    const core::RankMetrics came = run_backward_pass(*backward, comm, tensors, {});
    EXPECT_EQ(made, 2) << "backward";
    EXPECT_EQ(came.total().bytes_received, back.bytes_received);
  }
}

}  // namespace
}  // namespace annulus::strategies
