// Which strategies can give the same bits for any number of ranks, which partitions they use for that, and the reasons
// for which other partitions are refused.
#include <gtest/gtest.h>

#include "annulus/strategies/strategy.hpp"
#include "forward_case.hpp"

namespace annulus::strategies {
namespace {

using pattern::Partition;
using pattern::PartitionKind;
using pattern::Semantics;

Case make(core::Shape shape, pattern::Pattern pattern, pattern::Documents documents = {}) {
  Case one = make_case("", shape, std::move(pattern), std::move(documents), core::DType::float32);
  one.problem.reproducible = true;
  one.problem.ulysses_ranks = 1;
  return one;
}

TEST(ReproducibleOrder, DocumentsAreRefusedOnlyWhereACausalOneIsCut) {
  Problem problem = make({1, 64, 4, 4, 8}, {Semantics::longnet, {{}}, true, false}, {0, 4, 12, 60, 64}).problem;
  problem.partition = PartitionKind::documents;
  for (const char* name : {"ring", "rotation"}) EXPECT_EQ(find(name)->not_reproducible(problem, 4), "") << "in parts";
  for (const char* name : {"ring_blocking", "onesided", "hybrid"}) {
    const std::string reason = find(name)->not_reproducible(problem, 4);
    EXPECT_NE(reason.find("rows [12, 60)"), std::string::npos) << name << ": " << reason;
    EXPECT_NE(reason.find("expected contiguous"), std::string::npos) << name << ": " << reason;
  }
  problem.pattern.causal = false;
  EXPECT_EQ(find("ring_blocking")->not_reproducible(problem, 4), "");
  problem.pattern.causal = true;
  problem.documents = {0, 16, 32, 48, 64};
  EXPECT_EQ(find("ring_blocking")->not_reproducible(problem, 4), "") << "no document is cut";
  EXPECT_NE(find("ring_blocking")->not_reproducible(problem, 5), "") << "a document is cut";
}

/// Zigzag, causal: keys follow one another up through the ranks and back down. Other cuts, or later keys, do not.
TEST(ReproducibleOrder, RowsGoFromPartToPart) {
  Problem problem = make({1, 64, 4, 4, 8}, {Semantics::longnet, {{}}, true, false}).problem;
  for (const char* name : {"ring", "rotation"}) {
    for (const bool gradients : {false, true}) {
      problem.gradients = gradients;
      problem.pattern.causal = true;
      problem.partition = PartitionKind::zigzag;
      EXPECT_EQ(why_not_reproducible(*find(name), problem, 4), "") << name;
      problem.partition = PartitionKind::block_cyclic;
      EXPECT_NE(why_not_reproducible(*find(name), problem, 4).find("zigzag"), std::string::npos) << name;
      problem.partition = PartitionKind::zigzag;
      problem.pattern.causal = false;
      const std::string reason = why_not_reproducible(*find(name), problem, 4);
      EXPECT_TRUE(reason.ends_with("expected contiguous")) << name << ": " << reason;
    }
  }
}

TEST(ReproducibleOrder, MatrixUnitsKeepNone) {
  Problem problem = make({1, 64, 4, 4, 8}, {Semantics::longnet, {{}}, true, false}).problem;
  problem.partition = PartitionKind::contiguous;
  for (const core::Precision precision : core::all_precisions) {
    problem.precision = precision;
    problem.reproducible = true;
    EXPECT_EQ(why_not_reproducible(*find("ring"), problem, 4).find("matrix units") != std::string::npos,
              core::is_tf32(precision))
        << core::name_of(precision);
    problem.reproducible = false;
    EXPECT_EQ(why_not_reproducible(*find("ring"), problem, 4), "");
  }
}

TEST(ReproducibleOrder, PartitionLeftOpenIsContiguousWhereOrderMatters) {
  Problem problem = make({1, 1024, 2, 2, 8}, {Semantics::longnet, {{}}, true, false}).problem;
  for (const char* name : {"ring", "rotation"}) {
    EXPECT_EQ(kind_of(problem, find(name)->partition(problem, 4)), PartitionKind::zigzag) << name << ", in parts";
  }
  for (const char* name : {"ring_blocking", "onesided"}) {
    const Partition partition = find(name)->partition(problem, 4);
    EXPECT_EQ(partition[0].intervals(), (std::vector<core::Interval>{{0, 256}})) << name;
  }
  EXPECT_EQ(find("allgather")->partition(problem, 4)[0].intervals().size(), 2u) << "zigzag, which balances better";
  // If whole documents are dealt out, the long ones at the front do not all go to rank 0, and the order is kept.
  problem.documents = {0, 200, 400, 600, 800};
  while (problem.documents.back() < 1024) problem.documents.push_back(problem.documents.back() + 4);
  for (const char* name : {"ring", "rotation"}) {
    EXPECT_EQ(kind_of(problem, find(name)->partition(problem, 4)), PartitionKind::documents) << name;
  }
}

TEST(ReproducibleOrder, GradientsOfStrategiesThatKeepTheOrder) {
  Problem problem = make({1, 64, 4, 4, 8}, {Semantics::longnet, {{}}, true, false}).problem;
  problem.gradients = true;
  for (const char* name : {"single", "allgather", "ring_blocking", "ring", "rotation", "ulysses", "hybrid"}) {
    EXPECT_EQ(why_not_reproducible(*find(name), problem, 4), "") << name;
  }
  EXPECT_EQ(find("allgather")->partition(problem, 4)[0].intervals().size(), 1u) << "contiguous";
  EXPECT_NE(why_not_reproducible(*find("onesided"), problem, 4).find("whatever order"), std::string::npos);
  problem.partition = PartitionKind::zigzag;
  EXPECT_NE(why_not_reproducible(*find("allgather"), problem, 4).find("contiguous"), std::string::npos);
  EXPECT_EQ(why_not_reproducible(*find("ulysses"), problem, 4), "") << "one group has all rows";
  problem.partition.reset();
  problem.shape.kv_heads = 2;  // two query heads share each of them
  problem.ulysses_ranks = 4;
  EXPECT_NE(why_not_reproducible(*find("hybrid"), problem, 4).find("key/value head"), std::string::npos);
  EXPECT_NE(why_not_reproducible(*find("ulysses"), problem, 4).find("key/value head"), std::string::npos);
  problem.ulysses_ranks = 2;
  EXPECT_EQ(why_not_reproducible(*find("hybrid"), problem, 4), "");
  EXPECT_EQ(why_not_reproducible(*find("ulysses"), problem, 2), "");
}

TEST(ReproducibleOrder, GradientsRefuseRowsThatDoNotFollowOneAnother) {
  Problem problem;
  problem.shape = {1, 24, 2, 2, 4};
  problem.documents = {0, 24};
  problem.reproducible = problem.gradients = true;
  problem.pattern.causal = false;
  const pattern::Partition zigzag = pattern::zigzag_partition({0, 24}, 3);
  for (const char* name : {"ring", "ring_blocking", "rotation", "allgather"}) {
    EXPECT_THROW(find(name)->predict_backward(problem, zigzag, 1), core::Error) << name;
  }
  problem.partition = PartitionKind::zigzag;
  for (const char* name : {"ring", "ring_blocking", "rotation", "allgather"}) {
    EXPECT_NE(find(name)->not_reproducible_gradients(problem, 3).find("contiguous"), std::string::npos) << name;
  }
  EXPECT_NE(find("allgather_overlap")->not_reproducible_gradients(problem, 3), "");
  EXPECT_NE(find("ring_bidirectional")->not_reproducible_gradients(problem, 3), "");
  EXPECT_NE(find("onesided")->not_reproducible_gradients(problem, 3), "");
}

}  // namespace
}  // namespace annulus::strategies
