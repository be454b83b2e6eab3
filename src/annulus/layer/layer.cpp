#include "annulus/layer/layer.hpp"

#include "annulus/layer/matrix.hpp"
#include "annulus/layer/passes.hpp"

namespace annulus::layer {
namespace {

/// Calls check(), so that no member of Layer is constructed from an invalid problem.
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

Pass Layer::pass(const strategies::Progress& progress) const {
  const bool by_heads = problem_.sharding == Sharding::tensor;
  return {problem_,
          partition_,
          problem_of(problem_, comm_.rank(), comm_.size()),
          by_heads ? pattern::root_partition(problem_.attention.shape.sequence, 1) : partition_,
          strategy_,
          by_heads ? alone_ : comm_,
          own_comm_,
          progress};
}

ForwardResult Layer::forward(const Weights& weights, const core::Buffer& x,
                             const strategies::Progress& progress) const {
  ForwardResult made = layer::forward(pass(progress), weights, x);
  clear_missing_rows(made.y);
  return made;
}

/// Makes y zero in rows that do not exist (gaps between documents). Without this call, y would be bo in these rows.
void Layer::clear_missing_rows(core::Buffer& y) const {
  const strategies::Problem& attention = problem_.attention;
  const Index row_bytes = problem_.width * Index(core::bytes_of(attention.type));
  for (std::size_t i = 0; i < rows().intervals().size(); ++i) {
    const core::Interval& held = rows().intervals()[i];
    for (const core::Interval& missing : pattern::in_gaps(attention.documents, held)) {
      for (Index b = 0; b < attention.shape.batch; ++b) {
        const Index first = b * rows().count() + rows().stored_begin(i) + missing.begin - held.begin;
        core::fill_zero(y.at(first * row_bytes), missing.size() * row_bytes);
      }
    }
  }
}

BackwardResult Layer::backward(const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                               const core::Buffer& dy, const strategies::Progress& progress, InputGradient dx) const {
  return layer::backward(pass(progress), weights, x, std::move(saved), dy, dx);
}

double Layer::loss(core::Buffer& y, const core::Buffer& target) const {
  const core::Shape& s = problem_.attention.shape;
  const Index missing = pattern::count_in_gaps(problem_.attention.documents, {{0, s.sequence}});
  if (missing == s.sequence) return 0;  // no row exists
  const double numbers = double(s.batch) * double(s.sequence - missing) * double(problem_.width);
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
