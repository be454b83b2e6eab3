// Gradient descent: the loss of each step is the same for every sharding, strategy and number of ranks.
#include "layer_case.hpp"

namespace annulus::layer {
namespace {

constexpr int steps = 20;
constexpr double rate = 0.5;

/// The loss before each step, and after the last.
Numbers losses(const LayerCase& one, const strategies::Strategy& strategy, const comm::Communicator& comm,
               InputGradient dx = InputGradient::unwanted) {
  const Layer layer(one.problem, strategy, comm);
  Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x"), target = own_buffer(layer, one.target(), "target");
  Numbers curve;
  for (int step = 0; step <= steps; ++step) {
    ForwardResult forward = layer.forward(weights, x);
    curve.push_back(layer.loss(forward.y, target));
    if (step == steps) break;
    const BackwardResult backward = layer.backward(weights, x, std::move(forward.saved), forward.y, {}, dx);
    descend(one.problem, rate, backward.gradients, weights);
  }
  return curve;
}

TEST(Training, TheLossIsTheSameEverywhereAndFalls) {
  const comm::Communicator comm(MPI_COMM_WORLD), alone = comm.split(comm.rank());
  LayerCase one = make_case("", {2, 21, 4, 2, 6}, 10, {true, true, true, true}, 10000.0);
  const Numbers expected = losses(one, *strategies::find("single"), alone);
  for (int step = 0; step < steps; ++step) EXPECT_LT(expected[std::size_t(step) + 1], expected[std::size_t(step)]);
  EXPECT_LT(expected.back(), 0.7 * expected.front());
  for (const ShardingEntry& entry : sharding_table) {
    one.problem.sharding = entry.value;
    for (const strategies::Strategy* strategy : strategies::available()) {
      if (entry.value == Sharding::tensor && strategy->name() != "single") continue;  // uses no strategy
      const Numbers curve = losses(one, *strategy, comm);
      if (strategy->name() == "ring" || entry.value == Sharding::tensor) {
        EXPECT_EQ(losses(one, *strategy, comm, InputGradient::wanted), curve) << entry.name << ": bits depend on dx";
      }
      for (std::size_t step = 0; step < curve.size(); ++step) {
        EXPECT_NEAR(curve[step], expected[step], 1e-10 * expected[step])
            << entry.name << ", " << strategy->name() << ", step " << step;
      }
    }
  }
}

TEST(Training, FilledInKeysAreTheSameEverywhere) {
  const comm::Communicator comm(MPI_COMM_WORLD), alone = comm.split(comm.rank());
  LayerCase one = make_case("", {2, 21, 4, 2, 6}, 10, {true, true, true, true});
  one.problem.attention.pattern = {pattern::Semantics::longnet, {{8, 1}, {pattern::whole_document, 4}}, false, false};
  const Numbers without = losses(one, *strategies::find("single"), alone);
  one.problem.attention.pattern.semantics = pattern::Semantics::torchscale;
  const Numbers expected = losses(one, *strategies::find("single"), alone);
  EXPECT_GT(std::abs(expected.back() - without.back()), 1e-6 * without.back()) << "the padding counts";
  for (const ShardingEntry& entry : sharding_table) {
    one.problem.sharding = entry.value;
    const Numbers curve = losses(one, *strategies::find(entry.value == Sharding::tensor ? "single" : "ring"), comm);
    for (std::size_t step = 0; step < curve.size(); ++step) {
      EXPECT_NEAR(curve[step], expected[step], 1e-10 * expected[step]) << entry.name << ", step " << step;
    }
  }
}

/// A backward pass of this rank, with dx or without: gradients of all weights, and their cost.
BackwardResult backward_of(const LayerCase& one, const comm::Communicator& comm, InputGradient dx) {
  const Layer layer(one.problem, *strategies::find("ring"), comm);
  const Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x"), dy = own_buffer(layer, one.dy(), "dy");
  return layer.backward(weights, x, layer.forward(weights, x).saved, dy, {}, dx);
}

TEST(Training, MakesNoGradientByX) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
    LayerCase one = make_case("", {2, 21, 4, 2, 6}, 10, {true, false, true, true}, 10000.0, type);
    for (const ShardingEntry& entry : sharding_table) {
      SCOPED_TRACE(fmt::format("{}, {}", entry.name, name_of(type)));
      one.problem.sharding = entry.value;
      const BackwardResult all = backward_of(one, comm, InputGradient::wanted);
      const BackwardResult without = backward_of(one, comm, InputGradient::unwanted);
      EXPECT_GT(all.dx.bytes(), 0);
      EXPECT_EQ(without.dx.bytes(), 0);
      for (const Weight weight : all_weights) {
        EXPECT_EQ(numbers_in(without.gradients[weight], type), numbers_in(all.gradients[weight], type))
            << name_of(weight);
      }
      // dx = dq wq^T + dk wk^T + dv wv^T, of this rank's rows and all heads or of all rows and its heads.
      const bool by_heads = entry.value == Sharding::tensor;
      const Layer layer(one.problem, *strategies::find("ring"), comm);
      const Index rows = 2 * (by_heads ? 21 : layer.rows().count());
      const Index heads = by_heads ? query_heads(one.problem, comm.rank(), comm.size()).size() +
                                         2 * kv_heads(one.problem, comm.rank(), comm.size()).size()
                                   : 4 + 2 * 2;
      EXPECT_EQ(all.metrics.product_flops - without.metrics.product_flops, 2.0 * double(rows * 10 * heads * 6));
      // Only dx needs these messages: gathered weights, and its sum over ranks.
      const bool moves = entry.value != Sharding::none && comm.size() > 1;
      EXPECT_EQ(comm.sum(all.metrics.bytes_received) > comm.sum(without.metrics.bytes_received), moves);
      EXPECT_EQ(comm.sum(all.metrics.bytes_sent) > comm.sum(without.metrics.bytes_sent), moves);
    }
  }
}

TEST(Training, LossAndItsGradientByDefinition) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const core::DType type : {core::DType::float64, core::DType::float32, core::DType::bfloat16}) {
    const LayerCase one = make_case("", {2, 7, 1, 1, 2}, 3, {}, {}, type);
    const Layer layer(one.problem, *strategies::find("single"), comm);
    const Numbers y = one.x(), target = one.target();
    Numbers gradient = y;
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      loss += (y[i] - target[i]) * (y[i] - target[i]) / (2.0 * double(y.size()));
      gradient[i] = (y[i] - target[i]) / double(y.size());
    }
    core::Buffer now = own_buffer(layer, y, "y");
    EXPECT_NEAR(layer.loss(now, own_buffer(layer, target, "target")), loss, 1e-14);
    EXPECT_TRUE(test::close_to(numbers_in(now, type), own_rows(layer, test::rounded(gradient, type)),
                               type == core::DType::float64 ? 1e-16 : 0));
  }
}

TEST(Training, AStepSubtractsTheScaledGradient) {
  const LayerCase one = make_case("", {1, 4, 2, 1, 2}, 3, {true, false, true, true}, {}, core::DType::float32);
  Weights weights = make_weights(one.problem, 0, 1), gradients = make_weights(one.problem, 0, 1);
  for (const Weight w : all_weights) {
    weights[w] = buffer_of(one.weight(w), one.type(), "weights");
    gradients[w] = buffer_of(Numbers(one.weight(w).size(), 0.25), one.type(), "weight gradients");
  }
  descend(one.problem, 0.5, gradients, weights);
  for (const Weight w : all_weights) {
    Numbers expected = one.weight(w);
    for (double& value : expected) value -= 0.125;
    EXPECT_EQ(numbers_in(weights[w], one.type()), test::rounded(expected, one.type())) << name_of(w);
  }
}

}  // namespace
}  // namespace annulus::layer
