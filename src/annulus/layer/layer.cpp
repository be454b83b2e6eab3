#include "annulus/layer/layer.hpp"

#include "annulus/layer/matrix.hpp"
#include "annulus/layer/passes.hpp"

namespace annulus::layer {
namespace {

/// Checks the problem before members are constructed from it.
LayerProblem checked(LayerProblem problem) {
  check(problem);
  return problem;
}

}  // namespace

pattern::Partition partition_of(const LayerProblem& problem, const strategies::Strategy& strategy, int ranks) {
  if (problem.sharding != Sharding::tensor) return strategy.partition(problem.attention, ranks);
  return pattern::contiguous_partition(problem.attention.shape.sequence, ranks);
}

Layer::Layer(LayerProblem problem, const strategies::Strategy& strategy, const comm::Communicator& comm)
    : problem_(checked(std::move(problem))),
      strategy_(problem_.sharding == Sharding::tensor ? *strategies::find("single") : strategy),
      comm_(comm),
      own_comm_(comm.handle()),
      alone_(comm.split(comm.rank())),
      partition_(partition_of(problem_, strategy, comm.size())) {
  strategy_.check_ranks(problem_.attention, partition_, comm_);
}

ForwardResult Layer::forward(const Weights& weights, const core::Buffer& x,
                             const strategies::Progress& progress) const {
  return layer::forward({problem_, partition_, strategy_, attention_comm(), own_comm_, progress}, weights, x);
}

BackwardResult Layer::backward(const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                               const core::Buffer& dy, const strategies::Progress& progress, InputGradient dx) const {
  return layer::backward({problem_, partition_, strategy_, attention_comm(), own_comm_, progress}, weights, x,
                         std::move(saved), dy, dx);
}

double Layer::loss(core::Buffer& y, const core::Buffer& target) const {
  const core::Shape& s = problem_.attention.shape;
  const double numbers = double(s.batch) * double(s.sequence) * double(problem_.width);
  const auto matrix = [&](const core::Buffer& buffer) {
    return matrix_at(buffer.data(), problem_.attention.type, s.batch * rows().count(), problem_.width);
  };
  const double own = squared_distance(matrix(y), matrix(target), 1 / numbers);
  double sum = 0;
  for (const double part : comm_.gather_all(own)) sum += part;
  return 0.5 * sum / numbers;
}

void descend(const LayerProblem& problem, double rate, const Weights& gradients, Weights& weights) {
  const core::DType type = problem.attention.type;
  for (const Weight weight : all_weights) {
    const auto row = [&](const core::Buffer& buffer) {
      return matrix_at(buffer.data(), type, 1, buffer.bytes() / Index(core::bytes_of(type)));
    };
    subtract_scaled(rate, row(gradients[weight]), row(weights[weight]));
  }
}

}  // namespace annulus::layer
