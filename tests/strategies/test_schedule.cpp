// A schedule is made once: prediction, printing and execution use the same plans.
#include <gtest/gtest.h>

#include "annulus/comm/communicator.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// A strategy that counts how often its plans are made.
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

/// Compares what every rank receives, by sender, with what each rank is predicted to send and to receive.
void expect_all_bytes_have_a_sender(const Schedule& schedule, int ranks) {
  std::vector<Index> sent(std::size_t(ranks), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Index> from = schedule.bytes_from(rank);
    ASSERT_EQ(from.size(), std::size_t(ranks));
    EXPECT_EQ(from[std::size_t(rank)], 0) << "bytes from itself";
    Index received = 0;
    for (int p = 0; p < ranks; ++p) {
      received += from[std::size_t(p)];
      sent[std::size_t(p)] += from[std::size_t(p)];
    }
    EXPECT_EQ(received, schedule.predict(rank).bytes_received) << "rank " << rank;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(sent[std::size_t(rank)], schedule.predict(rank).bytes_sent) << "rank " << rank;
  }
}

TEST(Schedule, TellsWhoSendsWhatToWhom) {
  for (const Case& one : semantics_cases()) {
    for (const auto& strategy : registry()) {
      if (strategy->reads_store()) continue;  // it sends no messages
      for (const int ranks : {1, 2, 3, 4, 6}) {
        SCOPED_TRACE(fmt::format("{}, {}, {} ranks", one.name, strategy->name(), ranks));
        Problem problem = one.problem;
        problem.gradients = true;
        const pattern::Partition partition = strategy->partition(problem, ranks);
        expect_all_bytes_have_a_sender(*strategy->forward_schedule(problem, partition), ranks);
        expect_all_bytes_have_a_sender(*strategy->backward_schedule(problem, partition), ranks);
      }
    }
  }
}

TEST(Schedule, InARingAllComesFromTheNeighbour) {
  const pattern::Pattern dense{pattern::Semantics::longnet, {{pattern::whole_document, 1}}, false, false};
  Case one = make_case("dense", {1, 24, 2, 1, 4}, dense);
  one.problem.partition = pattern::PartitionKind::contiguous;
  const auto from = [&](const char* name, int rank) {
    const Strategy& strategy = *find(name);
    return strategy.forward_schedule(one.problem, strategy.partition(one.problem, 4))->bytes_from(rank);
  };
  const Index block = 2 * 6 * 4 * 4;  // K and V of 6 rows, 1 head of 4 float32
  EXPECT_EQ(from("ring", 1), (std::vector<Index>{3 * block, 0, 0, 0}));
  EXPECT_EQ(from("rotation", 1), (std::vector<Index>{block, 0, block, block}));
  EXPECT_EQ(from("allgather", 1), (std::vector<Index>{block, 0, block, block}));
}

}  // namespace
}  // namespace annulus::strategies
