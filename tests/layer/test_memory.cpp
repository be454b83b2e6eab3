// What a rank holds of the weights, by the memory ledger.
#include "annulus/layer/predict.hpp"
#include "layer_case.hpp"

namespace annulus::layer {
namespace {

/// Bytes of a matrix and its bias.
Index bytes_of(const LayerProblem& problem, Weight matrix) {
  return (whole(problem, matrix).count() + whole(problem, bias_of(matrix)).count()) * 8;
}

struct Peaks {
  Index weights, gradients, gathered, pieces;
};

/// Peak bytes by purpose of a forward and a backward pass on this rank.
Peaks peaks_of(const LayerCase& one, const comm::Communicator& comm) {
  const Layer layer(one.problem, *strategies::find("single"), comm);
  core::memory_ledger().reset_peak();
  const Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x"), dy = own_buffer(layer, one.dy(), "dy");
  const BackwardResult backward = layer.backward(weights, x, layer.forward(weights, x).saved, dy);
  auto peaks = core::memory_ledger().peak_by_purpose();
  return {peaks["weights"], peaks["weight gradients"], peaks["gathered weight"], peaks["pieces of sums"]};
}

LayerCase layer_of(Sharding sharding) {
  LayerCase one = make_case("", {1, 12, 4, 2, 6}, 24, {true, true, true, true});
  one.problem.sharding = sharding;
  return one;
}

TEST(Memory, FsdpHoldsItsShareAndTheWeightInUseAndTheNext) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const LayerCase one = layer_of(Sharding::fsdp);
  Index share = 0, largest_piece = 0;
  for (const Weight w : all_weights) {
    const Index own = kept(one.problem, w, comm.rank(), comm.size()).count() * 8;
    EXPECT_LE(
        own, core::ceil_div(whole(one.problem, w).rows.size(), comm.size()) * whole(one.problem, w).columns.size() * 8);
    share += own;
    largest_piece = std::max(largest_piece, kept(one.problem, w, 0, comm.size()).count() * 8);
  }
  const Peaks peaks = peaks_of(one, comm);
  EXPECT_EQ(peaks.weights, share);
  EXPECT_EQ(peaks.gradients, share);
  // wq is as large as wo; wk and wv are half as large. The largest weights that are complete at once are wq and wk.
  EXPECT_EQ(peaks.gathered, bytes_of(one.problem, Weight::wq) + bytes_of(one.problem, Weight::wk));
  // Pieces of a gradient: the sum of this rank's piece, one that arrives, one that leaves, one that is being made.
  EXPECT_LE(peaks.pieces, (comm.size() == 1 ? 1 : 4) * largest_piece);
  EXPECT_GT(peaks.pieces, 0);
}

TEST(Memory, NoneHoldsEverythingAndGathersNothing) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const LayerCase one = layer_of(Sharding::none);
  Index all = 0;
  for (const Weight w : all_weights) all += whole(one.problem, w).count() * 8;
  const Peaks peaks = peaks_of(one, comm);
  EXPECT_EQ(peaks.weights, all);
  EXPECT_EQ(peaks.gradients, all);
  EXPECT_EQ(peaks.gathered, 0);
}

TEST(Memory, TensorHoldsTheWeightsOfItsHeads) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const LayerCase one = layer_of(Sharding::tensor);
  const Index query = query_heads(one.problem, comm.rank(), comm.size()).size();
  const Index kv = kv_heads(one.problem, comm.rank(), comm.size()).size();
  // wq, bq, wo of its query heads, wk, wv, bk, bv of their K/V heads, and bo.
  const Index share = (query * 6 * (24 + 1 + 24) + 2 * kv * 6 * (24 + 1) + 24) * 8;
  const Peaks peaks = peaks_of(one, comm);
  EXPECT_EQ(peaks.weights, share);
  EXPECT_EQ(peaks.gradients, share);
  EXPECT_EQ(peaks.gathered, 0);
}

/// Peak bytes since the last reset, without lists of integers and panels that an earlier, larger case left behind.
Index peak_without(Index scratch_before) {
  return core::memory_ledger().peak() - core::memory_ledger().peak_by_purpose()["work list"] - scratch_before;
}
Index scratch_now() { return core::memory_ledger().peak_by_purpose()["kernel scratch"]; }

void check_prediction(const core::Shape& shape, Index width, core::DType type, const ShardingEntry& entry,
                      const char* strategy) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  SCOPED_TRACE(std::string(entry.name) + ", " + strategy + ", " + std::string(core::name_of(type)));
  LayerCase one = make_case("", shape, width, {true, false, true, true}, 10000.0, type);
  one.problem.sharding = entry.value;
  const Layer layer(one.problem, *strategies::find(strategy), comm);
  const MemoryPrediction predicted =
      predict_memory(one.problem, *strategies::find(strategy), layer.partition(), comm.rank());
  const Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x");
  core::memory_ledger().reset_peak();
  Index scratch = scratch_now();
  ForwardResult forward = layer.forward(weights, x);
  const Index forward_peak = peak_without(scratch);
  forward.y = own_buffer(layer, one.dy(), "dy");
  core::memory_ledger().reset_peak();
  scratch = scratch_now();
  layer.backward(weights, x, std::move(forward.saved), forward.y);
  const Index backward_peak = peak_without(scratch);
  const core::Buffer target = own_buffer(layer, one.target(), "target");
  forward = layer.forward(weights, x);
  core::memory_ledger().reset_peak();
  scratch = scratch_now();
  layer.backward(weights, x, std::move(forward.saved), forward.y, {}, InputGradient::unwanted);
  const Index training_peak = std::max(forward_peak + target.bytes(), peak_without(scratch));
  EXPECT_LE(training_peak, predicted.training);
  EXPECT_GE(training_peak, predicted.training / 2);
  EXPECT_LE(forward_peak, predicted.forward);
  EXPECT_LE(backward_peak, predicted.backward);
  EXPECT_GE(forward_peak, predicted.forward / 2);
  EXPECT_GE(backward_peak, predicted.backward / 2);
}

TEST(Memory, IsWhatWasPredicted) {
  for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
    for (const ShardingEntry& entry : sharding_table) {
      for (const char* strategy : {"ring", "allgather"})
        check_prediction({2, 700, 6, 3, 16}, 100, type, entry, strategy);
    }
  }
}

// The peak comes after the attention, when gradients of 16-bit tensors still lie in the memory of their sums.
TEST(Memory, IsWhatWasPredictedOfWideWeightsAndFewRows) {
  for (const ShardingEntry& entry : sharding_table) {
    check_prediction({1, 400, 16, 16, 64}, 1024, core::DType::bfloat16, entry, "ring");
  }
}

// Rank 0 receives what all other ranks contribute to the gradients of wk and wv.
TEST(Memory, IsWhatWasPredictedOfAHeadThatAllRanksKeep) {
  const ShardingEntry& entry = sharding_table[std::size_t(Sharding::tensor)];
  check_prediction({1, 16, 4, 1, 64}, 8192, core::DType::float32, entry, "ring");
}

}  // namespace
}  // namespace annulus::layer
