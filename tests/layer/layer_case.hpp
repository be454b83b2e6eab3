// Layers with numbers: the whole problem as doubles, a rank's parts of it, and a run compared with the reference.
#pragma once

#include <gtest/gtest.h>

#include "annulus/core/memory.hpp"
#include "annulus/layer/layer.hpp"
#include "reference_layer.hpp"
#include "support/attention_case.hpp"
#include "support/random_layout.hpp"
#include "support/tolerance.hpp"

namespace annulus::layer {

using test::Numbers;

struct LayerCase {
  std::string name;
  LayerProblem problem;

  const core::Shape& shape() const { return problem.attention.shape; }
  core::DType type() const { return problem.attention.type; }

  /// x, dy or a target, (B, S, E). Each of them has its own seed.
  Numbers rows_of(std::uint64_t seed) const {
    return test::random_values(core::TensorId::q, shape().batch * shape().sequence * problem.width, type(), seed);
  }
  Numbers x() const { return rows_of(1); }
  Numbers dy() const { return rows_of(2); }
  Numbers target() const { return rows_of(3); }

  /// Random numbers of a weight, of a size that keeps q, k, v and y near 1.
  Numbers weight(Weight weight) const {
    const Rectangle box = whole(problem, weight);
    const double inputs = is_bias(weight) ? 4.0 : double(box.rows.size());
    return test::random_values(core::TensorId::k, box.count(), type(), 10 + std::uint64_t(weight),
                               1 / std::sqrt(std::max(1.0, inputs)));
  }

  test::ReferenceLayer reference() const {
    test::ReferenceLayer layer{
        shape(),      problem.width, test::reference_pattern(problem.attention.layout(), problem.attention.scale),
        problem.rope, x(),           {}};
    for (const Weight w : all_weights) layer.weights[std::size_t(w)] = weight(w);
    return layer;
  }
};

inline LayerCase make_case(const std::string& name, core::Shape shape, Index width, std::array<bool, 4> biases = {},
                           std::optional<double> rope = {}, core::DType type = core::DType::float64) {
  LayerCase made{name, {}};
  LayerProblem& problem = made.problem;
  problem.width = width;
  problem.biases = biases;
  problem.rope = rope;
  problem.attention.shape = shape;
  problem.attention.type = type;
  problem.attention.precision = core::default_precision(type);
  problem.attention.scale = 1 / std::sqrt(double(shape.head_dim));
  problem.attention.pattern = {pattern::Semantics::longnet, {{4, 1}, {pattern::whole_document, 2}}, true, false};
  problem.attention.documents = {0, shape.sequence};
  problem.attention.backend = kernels::default_backend();
  problem.attention.gradients = true;
  return made;
}

inline core::Buffer buffer_of(const Numbers& values, core::DType type, const char* purpose) {
  const auto bytes = test::to_storage(values, type);
  core::Buffer buffer(purpose, Index(bytes.size()));
  core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
  return buffer;
}

inline Numbers numbers_in(const core::Buffer& buffer, core::DType type) {
  return test::from_device(buffer, buffer.bytes() / Index(core::bytes_of(type)), type);
}

/// The rank's rows of a (B, S, E) array.
inline Numbers own_rows(const Layer& layer, const Numbers& values) {
  const core::Shape& s = layer.problem().attention.shape;
  return test::take_rows(values, s.batch, s.sequence, layer.rows().intervals());
}

inline core::Buffer own_buffer(const Layer& layer, const Numbers& values, const char* purpose) {
  return buffer_of(own_rows(layer, values), layer.problem().attention.type, purpose);
}

/// The numbers of a box, row by row, out of a whole weight.
inline Numbers take_box(const Numbers& values, const Rectangle& all, const Rectangle& box) {
  Numbers taken;
  for (Index row = box.rows.begin; row < box.rows.end; ++row) {
    for (Index column = box.columns.begin; column < box.columns.end; ++column) {
      taken.push_back(values[std::size_t(row * all.columns.size() + column)]);
    }
  }
  return taken;
}

inline Weights own_weights(const LayerCase& one, const comm::Communicator& comm) {
  Weights weights;
  for (const Weight w : all_weights) {
    const Rectangle box = kept(one.problem, w, comm.rank(), comm.size());
    weights[w] = buffer_of(take_box(one.weight(w), whole(one.problem, w), box), one.type(), "weights");
  }
  return weights;
}

/// The tolerance for a rank's part of a dataset. With it, errors are relative to the largest number of the whole.
inline double of_part(double tolerance, const Numbers& all, const Numbers& part) {
  const auto size = [](const Numbers& numbers) {
    double largest = 1;
    for (const double number : numbers) largest = std::max(largest, std::abs(number));
    return largest;
  };
  return tolerance * size(all) / size(part);
}

/// Compares one forward and backward pass with the reference: y, dx and every gradient that this rank keeps.
inline void check(const LayerCase& one, const strategies::Strategy& strategy, const comm::Communicator& comm,
                  double forward_tolerance, double gradient_tolerance) {
  SCOPED_TRACE(one.name + ", " + std::string(name_of(one.problem.sharding)) + ", " + std::string(strategy.name()));
  const test::ReferenceLayer reference = one.reference();
  const auto expected = reference.backward(one.dy());
  const Layer layer(one.problem, strategy, comm);
  const Weights weights = own_weights(one, comm);
  const core::Buffer x = own_buffer(layer, one.x(), "x"), dy = own_buffer(layer, one.dy(), "dy");

  const auto close = [&](const core::Buffer& found, const Numbers& all, const Numbers& part, double tolerance) {
    return test::close_to(numbers_in(found, one.type()), part, of_part(tolerance, all, part));
  };
  ForwardResult forward = layer.forward(weights, x);
  const Numbers y = reference.forward();
  EXPECT_TRUE(close(forward.y, y, own_rows(layer, y), forward_tolerance)) << "y";
  BackwardResult backward = layer.backward(weights, x, std::move(forward.saved), dy);
  EXPECT_TRUE(close(backward.dx, expected.dx, own_rows(layer, expected.dx), gradient_tolerance)) << "dx";
  for (const Weight w : all_weights) {
    const Rectangle box = kept(one.problem, w, comm.rank(), comm.size());
    const Numbers& all = expected.weights[std::size_t(w)];
    EXPECT_TRUE(close(backward.gradients[w], all, take_box(all, whole(one.problem, w), box), gradient_tolerance))
        << "d" << name_of(w);
  }
  for (const LayerMetrics* metrics : {&forward.metrics, &backward.metrics}) {
    EXPECT_EQ(comm.sum(metrics->bytes_sent), comm.sum(metrics->bytes_received)) << "what is sent arrives";
  }
}

}  // namespace annulus::layer
