// Strategies that exchange rows for heads: what they move and store, on any number of ranks, counted in one process;
// and groups of more sizes than in test_forward.cpp.
#include "annulus/strategies/heads/head_groups.hpp"

#include <mpi.h>

#include <map>

#include "annulus/strategies/computation.hpp"
#include "backward_case.hpp"

namespace {
annulus::core::Index sent_to_itself = 0, sent = 0;  // bytes of messages since the last reset to 0
}  // namespace

/// Intercepts messages with the profiling interface.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  MPI_Count size = 0;
  MPI_Type_size_x(type, &size);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  sent += size * count;
  if (to == rank) sent_to_itself += size * count;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

namespace annulus::strategies {
namespace {

const pattern::Pattern dilated{
    pattern::Semantics::longnet, {{8, 1}, {20, 3}, {pattern::whole_document, 4}}, true, false};

TEST(HeadGroups, DealHeadsAndJoinRows) {
  const Case one = make_case("worked example", {1, 8, 5, 1, 4}, dilated);
  const pattern::Partition partition = pattern::contiguous_partition(8, 4);
  const HeadGroup group(one.problem, partition, 2, 3);  // the second rank of group 1: heads 3 4
  EXPECT_EQ(group.number(), 1);
  EXPECT_EQ(group.rank(), 1);
  EXPECT_EQ(group.rows()[0].intervals(), (std::vector<core::Interval>{{0, 4}}));
  EXPECT_EQ(group.rows()[1].intervals(), (std::vector<core::Interval>{{4, 8}}));
  EXPECT_EQ(group.narrow().shape, (core::Shape{1, 8, 2, 1, 4}));
  EXPECT_EQ(group.narrow().layout().query_heads(), (core::Interval{3, 5}));
  // Rank 3 sends heads 0 1 2 of q and the K/V head for its 2 rows, then out and lse of 2 heads for 2 rows, in float32.
  EXPECT_EQ(group.bytes_sent(), 4 * (2 * 3 * 4 + 2 * 2 * 4 + 2 * 2 * 4 + 2 * 2));
  EXPECT_EQ(group.bytes_received(), 4 * (2 * 2 * 4 + 2 * 2 * 4 + 2 * 3 * 4 + 2 * 3));
  EXPECT_EQ(group.rows_received(), 2);
  // With gradients, the normalizers of the same rows and heads return, too: two numbers for each.
  Problem with_gradients = one.problem;
  with_gradients.gradients = true;
  const HeadGroup back(with_gradients, partition, 2, 3);
  EXPECT_EQ(back.bytes_sent(), group.bytes_sent() + 4 * (2 * 2 * 2));
  EXPECT_EQ(back.bytes_received(), group.bytes_received() + 4 * (2 * 3 * 2));
  EXPECT_EQ(back.memory(0), group.memory(0) + 4 * 2 * (4 * 2 + 2 * 5));
  // Memory: own q, k, v; out and lse of own heads for the group's rows, and of all heads for own rows; kernel panels.
  const Index outputs = 4 * (4 * 2 * (4 + 1)) + 4 * (2 * 5 * (4 + 1));
  EXPECT_EQ(group.memory(0), 4 * (2 * 5 * 4 + 2 * 2 * 4) + outputs + kernel_memory(group.narrow(), 4));
  EXPECT_EQ(group.memory(1 << 30), 4 * (2 * 5 * 4 + 2 * 2 * 4) + (1 << 30));
}

TEST(HeadGroups, WhatIsSentIsReceivedAtAnyNumberOfRanks) {
  for (const core::Shape shape :
       {core::Shape{2, 29, 6, 2, 8}, core::Shape{1, 5, 9, 3, 4}, core::Shape{1, 64, 1, 1, 8}}) {
    const Case one = make_case("", shape, dilated);
    for (const int ranks : {1, 2, 4, 6, 7, 12}) {
      for (int size = 1; size <= ranks; ++size) {
        if (ranks % size != 0) continue;
        const pattern::Partition partition = pattern::zigzag_partition(one.problem.documents, ranks);
        Index sent = 0, received = 0, heads = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const HeadGroup group(one.problem, partition, size, rank);
          sent += group.bytes_sent();
          received += group.bytes_received();
          heads += group.narrow().shape.heads;
        }
        EXPECT_EQ(sent, received) << ranks << " ranks in groups of " << size;
        EXPECT_EQ(sent > 0, size > 1);
        EXPECT_EQ(heads, shape.heads * (ranks / size)) << "every group has every head once";
      }
    }
  }
}

TEST(Hybrid, IsTheRingInGroupsOfOneAndUlyssesInOneGroup) {
  Case one = make_case("", {1, 60, 4, 2, 8}, dilated);
  one.problem.partition = pattern::PartitionKind::contiguous;
  const auto sent = [&](const char* name, int ranks, int rank) {
    const Strategy& strategy = *find(name);
    return strategy.predict(one.problem, strategy.partition(one.problem, ranks), rank).bytes_sent;
  };
  for (int rank = 0; rank < 6; ++rank) {
    one.problem.ulysses_ranks = 1;
    EXPECT_EQ(sent("hybrid", 6, rank), sent("ring", 6, rank));
    one.problem.ulysses_ranks = 6;
    EXPECT_EQ(sent("hybrid", 6, rank), sent("ulysses", 6, rank));
  }
  one.problem.ulysses_ranks = 4;
  EXPECT_THROW(sent("hybrid", 6, 0), core::Error);
}

/// All results of the forward, backward and statistics passes, and what they cost.
struct Results {
  std::vector<std::vector<std::byte>> bytes;
  Index moved = 0;                     ///< bytes of messages
  Index moved_in_place = 0;            ///< bytes that a rank sends to itself
  std::map<std::string, Index> peaks;  ///< bytes, by purpose
};

Results results_of(const Strategy& strategy, const Case& one, const comm::Communicator& comm) {
  const Problem& problem = one.problem;
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  const AttentionCase numbers = one.numbers();
  Tensors tensors = take_tensors(numbers, problem, rows);
  tensors.dout = take_tensors(numbers, problem, rows).q;
  core::memory_ledger().reset_peak();
  sent = sent_to_itself = 0;
  strategy.forward(problem, partition, comm, tensors, {});
  run_statistics_pass(*strategy.statistics_schedule(problem, partition), comm, tensors, {});
  strategy.backward(problem, partition, comm, tensors, {});
  Results results{{}, sent, sent_to_itself, core::memory_ledger().peak_by_purpose()};
  results.peaks.erase("kernel scratch");  // depends on how many tasks a thread gets
  for (const core::Buffer* result : {&tensors.out, &tensors.lse, &tensors.entropy, &tensors.received, &tensors.top_rows,
                                     &tensors.top_weights, &tensors.dq, &tensors.dkv}) {
    results.bytes.emplace_back(std::size_t(result->bytes()));
    EXPECT_GT(result->bytes(), 0);
    core::copy_to_host(results.bytes.back().data(), result->data(), result->bytes());
  }
  return results;
}

// In a group of one rank an exchange would be a copy of all tensors to the rank itself, in both directions.
TEST(HeadGroups, OfOneRankExchangeAndHoldNothing) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
    Case one = make_case("groups of one", {2, 61, 6, 3, 8}, dilated, {}, type);
    one.problem.partition = pattern::PartitionKind::contiguous;
    one.problem.ulysses_ranks = 1;
    one.problem.gradients = true;
    one.problem.statistics = {.entropy = true, .received = true, .top_keys = 3};
    const Results expected = results_of(*find("ring"), one, comm);
    for (const char* name : {"hybrid", "ulysses"}) {
      if (std::string(name) == "ulysses" && comm.size() > 1) continue;  // one group with all ranks
      SCOPED_TRACE(fmt::format("{}, {}", name, name_of(type)));
      const Strategy& strategy = *find(name);
      const Results found = results_of(strategy, one, comm);
      EXPECT_EQ(found.moved_in_place, 0);
      EXPECT_EQ(found.moved, expected.moved);
      EXPECT_EQ(found.moved > 0, comm.size() > 1);
      EXPECT_EQ(found.peaks, expected.peaks);
      EXPECT_EQ(found.bytes, expected.bytes);
      const pattern::Partition partition = strategy.partition(one.problem, comm.size());
      const auto memory = [&](const Strategy& any) {
        return std::pair(any.predict(one.problem, partition, comm.rank()).memory_bytes,
                         any.predict_backward(one.problem, partition, comm.rank()).memory_bytes);
      };
      EXPECT_EQ(memory(strategy), memory(*find("ring")));
    }
  }
}

TEST(Hybrid, ComputesInGroupsOfEverySize) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (int size = 1; size <= comm.size(); ++size) {
    if (comm.size() % size != 0) continue;
    for (const auto& entry : pattern::partition_table) {
      for (const Index kv_heads : {6, 3, 1}) {
        Case one = make_case("groups of " + std::to_string(size) + ", " + std::string(entry.name),
                             {2, 53, 6, kv_heads, 8}, dilated, {0, 11, 11, 40, 53}, core::DType::float64);
        one.problem.ulysses_ranks = size;
        one.problem.partition = entry.value;
        check(*find("hybrid"), one, comm);
        one.problem.pattern.causal = false;
        one.problem.pattern.semantics = pattern::Semantics::grouped;
        check(*find("hybrid"), one, comm);
      }
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
