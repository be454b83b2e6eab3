// pass_q, in addition to the tests of all strategies: few queries with many keys, the cost of this, and bits.
#include <algorithm>

#include "query_case.hpp"

namespace annulus::strategies {
namespace {

using pattern::PartitionKind;
using pattern::Semantics;

const Strategy& pass_q() { return *find("pass_q"); }

/// 64 queries that see all of `keys` keys, or those up to their own row if causal; 8 heads of 16.
QueryCase latents(Index keys, std::optional<Index> offset = std::nullopt, bool causal = false) {
  return make_queries(fmt::format("64 of {}{}", keys, causal ? ", causal" : ""), {1, keys, 8, 2, 16},
                      {Semantics::longnet, {{}}, causal, false}, offset, 64);
}

/// Forward, statistics and gradients against the definition, for every partition of the keys.
TEST(PassQ, FewQueriesOfManyKeys) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (QueryCase one : {latents(3001), latents(3001, 2937, true)}) {
    one.problem.sink = one.problem.pattern.causal;
    const QueryTruth truth(one);
    for (const PartitionKind kind : {PartitionKind::contiguous, PartitionKind::zigzag, PartitionKind::block_cyclic}) {
      one.problem.partition = kind;
      QueryRun(pass_q(), {one.name, one.problem, one.seed}, truth, comm).check();
    }
  }
}

/// Messages of many bytes: ranks have different numbers of queries, and the queries see different keys.
TEST(PassQ, ManyQueriesOfEveryBatchEntry) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  QueryCase one = make_queries("many", {3, 301, 6, 3, 40},
                               {Semantics::longnet, {{64, 1}, {pattern::whole_document, 3}}, true, false}, 11, 290);
  one.problem.sink = true;
  const QueryTruth truth(one);
  for (const PartitionKind kind : {PartitionKind::contiguous, PartitionKind::zigzag}) {
    one.problem.partition = kind;
    QueryRun(pass_q(), {one.name, one.problem, one.seed}, truth, comm).check();
  }
}

/// Bytes that all ranks together receive in a pass.
Index received(const Strategy& strategy, const Problem& problem, int ranks, bool backward) {
  const pattern::Partition partition = strategy.partition(problem, ranks);
  const auto schedule =
      backward ? strategy.backward_schedule(problem, partition) : strategy.forward_schedule(problem, partition);
  Index bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) bytes += schedule->predict(rank).bytes_received;
  return bytes;
}

TEST(PassQ, WhatTravelsDoesNotGrowWithTheKeys) {
  for (const int ranks : {2, 4}) {
    for (const bool backward : {false, true}) {
      Problem few = latents(4096).problem, many = latents(65536).problem;
      few.statistics = many.statistics = {};
      EXPECT_EQ(received(pass_q(), few, ranks, backward), received(pass_q(), many, ranks, backward));
      for (const char* other : {"ring", "rotation", "allgather"}) {
        EXPECT_LT(10 * received(pass_q(), many, ranks, backward), received(*find(other), many, ranks, backward))
            << other;
      }
    }
  }
  // Each rank sends q of its 32 queries, 8 heads of 16 float32, to the other rank, which returns l, m and acc.
  Problem problem = latents(65536).problem;
  problem.statistics = {};
  EXPECT_EQ(received(pass_q(), problem, 2, false), 64 * 8 * (16 * 4 + (16 + 2) * 4));
}

/// Partial results of ranks are merged in the order of the ranks: the same run twice gives the same bits.
TEST(PassQ, TheSameRunGivesTheSameBits) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  QueryCase one = latents(999, 500, true);
  one.problem.partition = PartitionKind::contiguous;
  const QueryTruth truth(one);
  const auto bits = [&] {
    const Problem& problem = one.problem;
    const pattern::Partition partition = pass_q().partition(problem, comm.size());
    const pattern::StoredRows& keys = partition[std::size_t(comm.rank())];
    const Index rows = query_rows(problem, partition)[std::size_t(comm.rank())].count();
    Tensors tensors;
    tensors.q = core::Buffer("q", rows * problem.query_row_bytes());
    tensors.kv = core::Buffer("kv", problem.kv_block_bytes(keys.count()));
    for (const core::Buffer* const tensor : {&tensors.q, &tensors.kv}) {
      std::vector<float> numbers(std::size_t(tensor->bytes()) / sizeof(float));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i * 7919 % 1000) / 500 - 1;
      core::copy_to_device(tensor->data(), numbers.data(), tensor->bytes());
    }
    tensors.dout = tensors.q;
    pass_q().forward(problem, partition, comm, tensors, {});
    pass_q().backward(problem, partition, comm, tensors, {});
    std::vector<std::byte> all;
    for (const core::Buffer* const tensor : {&tensors.out, &tensors.lse, &tensors.dq, &tensors.dkv}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor->bytes()));
      core::copy_to_host(bytes.data(), tensor->data(), tensor->bytes());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  const std::vector<std::byte> first = bits();
  EXPECT_EQ(bits(), first);
  const bool any = std::any_of(first.begin(), first.end(), [](std::byte one_byte) { return one_byte != std::byte(0); });
  EXPECT_EQ(comm.max(Index(any)), 1) << "all results of all ranks are 0";
}

TEST(PassQ, IsNotReproducibleAndSaysWhy) {
  Problem problem = latents(256).problem;
  problem.reproducible = true;
  EXPECT_NE(why_not_reproducible(pass_q(), problem, 2).find("merged"), std::string::npos);
  EXPECT_NE(pass_q().not_reproducible_gradients(problem, 2).find("dq"), std::string::npos);
}

}  // namespace
}  // namespace annulus::strategies
