// Memory of the backward pass. For problems of usual size, its prediction is compared with that of the forward pass;
// for small problems, it is measured and compared with its prediction.
#include <algorithm>

#include "backward_case.hpp"

namespace annulus::strategies {
namespace {

constexpr int ranks = 4;

struct Size {
  std::string name;
  pattern::Pattern pattern;
  Index kv_heads;
};

std::vector<Size> sizes() {
  using pattern::Semantics;
  const Index all = pattern::whole_document;
  const std::vector<pattern::Pair> mixed{{2048, 1}, {8192, 4}, {32768, 16}, {all, 64}};
  std::vector<Size> sizes;
  for (const bool causal : {false, true}) {
    for (const Index kv_heads : {8, 2}) {
      const std::string name = (causal ? "causal, Hkv " : "Hkv ") + std::to_string(kv_heads);
      sizes.push_back({"dense " + name, {Semantics::longnet, {{all, 1}}, causal, false}, kv_heads});
      sizes.push_back({"mixed " + name, {Semantics::longnet, mixed, causal, false}, kv_heads});
    }
  }
  return sizes;
}

/// Predicted memory of the backward pass over that of the forward pass: the largest such ratio of all ranks.
double ratio(const Strategy& strategy, const Problem& problem) {
  const pattern::Partition partition = strategy.partition(problem, ranks);
  double largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (partition[std::size_t(rank)].count() == 0) {
      EXPECT_EQ(strategy.predict_backward(problem, partition, rank).memory_bytes, 0) << "nothing to do";
      continue;
    }
    largest = std::max(largest, double(strategy.predict_backward(problem, partition, rank).memory_bytes) /
                                    double(strategy.predict(problem, partition, rank).memory_bytes));
  }
  return largest;
}

TEST(BackwardMemory, IsAtMostTwiceAndABitOfTheForwardPass) {
  for (const auto& strategy : registry()) {
    for (const Size& size : sizes()) {
      for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
        Case one = make_case(size.name, {1, 65536, 8, size.kv_heads, 64}, size.pattern, {}, type);
        const double limit = type == core::DType::float32 ? 2.2 : 2.7;
        const double found = ratio(*strategy, one.problem);
        EXPECT_LE(found, limit) << strategy->name() << ", " << size.name << ", " << name_of(type);
      }
    }
  }
}

TEST(BackwardMemory, OfGradientsInOrderIsMoreWhereSumsComeHomeWhileOthersPassBy) {
  for (const auto& strategy : registry()) {
    for (const Size& size : sizes()) {
      for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
        Case one = make_case(size.name, {1, 65536, 8, size.kv_heads, 64}, size.pattern, {}, type);
        one.problem.reproducible = one.problem.gradients = true;
        if (!why_not_reproducible(*strategy, one.problem, ranks).empty()) continue;
        // In dense causal problems, the last rank but one has three blocks of sums: arriving, leaving, and its own.
        const bool three = size.name.rfind("dense causal", 0) == 0;
        // Next to each block of sums is a block with the sums of the current query rows.
        const double limit = type == core::DType::float32 ? (three ? 3.4 : 2.6) : three ? 4.7 : 3.6;
        EXPECT_LE(ratio(*strategy, one.problem), limit)
            << strategy->name() << ", " << size.name << ", " << name_of(type);
      }
    }
  }
}

/// Peak bytes of a call, without work lists.
template <class Call>
Index peak_of(Call&& call) {
  core::memory_ledger().reset_peak();
  call();
  return core::memory_ledger().peak() - core::memory_ledger().peak_by_purpose()["work list"];
}

/// All strategies; those whose kernel sees all rows come last: threads keep the largest panels that they needed.
std::vector<const Strategy*> by_rows() {
  std::vector<const Strategy*> strategies = available();
  std::stable_partition(strategies.begin(), strategies.end(), [](const Strategy* one) {
    return one->name() != "single" && one->name() != "ulysses" && one->name() != "hybrid" && one->name() != "pass_q";
  });
  return strategies;
}

void expect_predicted_peaks(Index batch, Index rows_of_each, bool reproducible) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const Strategy* strategy : by_rows()) {
    for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
      SCOPED_TRACE(std::string(strategy->name()) + ", " + std::string(name_of(type)));
      Case one = make_case("dense", {batch, rows_of_each * comm.size(), 4, 4, 64},
                           {pattern::Semantics::longnet, {{}}, true, false}, {}, type);
      one.problem.reproducible = reproducible;
      one.problem.gradients = true;
      if (!why_not_reproducible(*strategy, one.problem, comm.size()).empty()) continue;
      const pattern::Partition partition = strategy->partition(one.problem, comm.size());
      const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
      if (rows.count() == 0) continue;
      Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
      strategy->forward(one.problem, partition, comm, tensors, {});
      tensors.dout = take_tensors(one.numbers(), one.problem, rows).q;
      const Index backward = peak_of([&] { strategy->backward(one.problem, partition, comm, tensors, {}); });
      const Index predicted = strategy->predict_backward(one.problem, partition, comm.rank()).memory_bytes;
      EXPECT_LE(backward, predicted);
      EXPECT_GE(double(backward), 0.9 * double(predicted)) << "the prediction is far too high";
    }
  }
}

// A single rank computes 60 batch entries in several blocks, as they have 12 MB of sums. This test must come first,
// because threads keep the larger panels that longer sequences need.
TEST(BackwardMemory, MeasuredPeakIsThePredictedOneOfManyEntries) {
  for (const bool reproducible : {false, true}) expect_predicted_peaks(60, 64, reproducible);
}

TEST(BackwardMemory, MeasuredPeakIsThePredictedOne) { expect_predicted_peaks(1, 512, false); }

TEST(BackwardMemory, MeasuredPeakIsThePredictedOneOfGradientsInOrder) { expect_predicted_peaks(1, 512, true); }

}  // namespace
}  // namespace annulus::strategies
