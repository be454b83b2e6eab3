// Gradients of the layer against differences of its own forward pass, without any reference.
#include "layer_case.hpp"

namespace annulus::layer {
namespace {

/// sum(dy * y) of a case whose x or weights were changed.
struct Objective {
  const LayerCase& one;
  const Layer& layer;
  Numbers dy = one.dy();

  double operator()(const Weights& weights, const core::Buffer& x) const {
    const Numbers y = numbers_in(layer.forward(weights, x).y, core::DType::float64);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  }
};

TEST(Differences, AgreeWithEveryGradient) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const LayerCase one = make_case("", {2, 9, 4, 2, 4}, 5, {true, true, true, true}, 100.0);
  const Layer layer(one.problem, *strategies::find("single"), comm);
  const Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x"), dy = own_buffer(layer, one.dy(), "dy");
  const BackwardResult backward = layer.backward(weights, x, layer.forward(weights, x).saved, dy);
  const Objective objective{one, layer};

  constexpr double step = 1e-5;
  // Central differences: error step^2 times a third derivative near 1, and 1e-16 / step of rounding.
  const auto compare = [&](const Numbers& gradient, const Numbers& values, auto&& objective_at) {
    for (std::size_t i = 0; i < values.size(); i += 3) {
      Numbers up = values, down = values;
      up[i] += step;
      down[i] -= step;
      const double difference = (objective_at(up) - objective_at(down)) / (2 * step);
      EXPECT_NEAR(gradient[i], difference, 1e-8 * std::max(1.0, std::abs(difference))) << "number " << i;
    }
  };
  compare(numbers_in(backward.dx, core::DType::float64), one.x(),
          [&](const Numbers& values) { return objective(weights, buffer_of(values, core::DType::float64, "x")); });
  for (const Weight w : all_weights) {
    SCOPED_TRACE(name_of(w));
    compare(numbers_in(backward.gradients[w], core::DType::float64), one.weight(w), [&](const Numbers& values) {
      Weights changed = weights;
      changed[w] = buffer_of(values, core::DType::float64, "weights");
      return objective(changed, x);
    });
  }
}

}  // namespace
}  // namespace annulus::layer
