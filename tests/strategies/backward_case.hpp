// Runs the backward pass of a case with a strategy on all ranks, and compares gradients with the float64 definition.
// Each rank checks its own rows of dq, dk and dv, and the cost that the strategy predicted.
#pragma once

#include <array>

#include "annulus/kernels/sink.hpp"
#include "forward_case.hpp"

namespace annulus::strategies {

/// A case's inputs and its results by the definition, computed once for all strategies.
struct Truth {
  explicit Truth(const Case& one)
      : numbers(one.numbers()),
        forward(numbers.reference()),
        gradients{numbers.reference_gradients(false), numbers.reference_gradients(true)} {}

  AttentionCase numbers;
  kernels::ReferenceResult forward;
  std::array<kernels::ReferenceGradients, 2> gradients;  ///< [0] without dlse, [1] with dlse
};

/// Adds the rank's rows of dout and dlse, and of the results of forward(): out, lse and normalizers by the definition.
inline void add_backward_tensors(const Truth& truth, const Problem& problem, const pattern::StoredRows& rows,
                                 bool with_dlse, Tensors& tensors) {
  const core::Shape& s = problem.shape;
  const auto take = [&](const std::vector<double>& whole, core::DType type) {
    const auto bytes = test::to_storage(test::take_rows(whole, s.batch, s.sequence, rows.intervals()), type);
    core::Buffer buffer("test tensor", Index(bytes.size()));
    core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
    return buffer;
  };
  tensors.out = take(truth.forward.out, problem.type);
  tensors.lse = take(truth.forward.lse, core::lse_type(problem.type));
  tensors.normalizers = take(test::normalizers_of(truth.forward.lse), problem.sum_type());
  tensors.dout = take(with_gaps(truth.numbers.dout(), problem), problem.type);
  if (with_dlse) tensors.dlse = take(with_gaps(truth.numbers.dlse(), problem), core::lse_type(problem.type));
}

/// dK (which = 0) or dV (which = 1) of the rank's rows.
inline std::vector<double> key_gradient(const Tensors& tensors, const Problem& problem, Index rows, Index which) {
  const Index dk = dk_bytes(problem, rows), all = problem.kv_block_bytes(rows);
  EXPECT_EQ(tensors.dkv.bytes(), all);
  const core::Buffer one = core::Buffer::borrowed(tensors.dkv.at(which == 0 ? 0 : dk), which == 0 ? dk : all - dk);
  return test::from_device(one, one.bytes() / Index(core::bytes_of(problem.type)), problem.type);
}

inline std::vector<double> dsink_of(const Tensors& tensors) { return kernels::sink_gradients_of(tensors.sink_sums); }

inline void check_backward(const Strategy& strategy, const Case& one, const Truth& truth,
                           const comm::Communicator& comm, bool with_dlse) {
  SCOPED_TRACE(std::string(strategy.name()) + ", " + one.name + (with_dlse ? ", dlse" : ""));
  const Problem& problem = one.problem;
  const core::Shape& s = problem.shape;
  const kernels::ReferenceGradients& expected = truth.gradients[with_dlse ? 1 : 0];
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = take_tensors(truth.numbers, problem, rows);
  add_backward_tensors(truth, problem, rows, with_dlse, tensors);
  const Prediction predicted = strategy.predict_backward(problem, partition, comm.rank());
  EXPECT_EQ(predicted.kept, strategy.predict(problem, partition, comm.rank()).kept);
  const Spending spending;
  const core::RankMetrics metrics = strategy.backward(problem, partition, comm, tensors, {});
  spending.expect(metrics, predicted, rows, comm);

  const double tolerance = core::gradient_tolerance(problem.type);
  const auto own = [&](const std::vector<double>& whole) {
    return test::take_rows(whole, s.batch, s.sequence, rows.intervals());
  };
  const Index numbers_of_dq = s.batch * rows.count() * s.heads * s.head_dim;
  EXPECT_TRUE(test::close_to(test::from_device(tensors.dq, numbers_of_dq, problem.type), own(expected.dq), tolerance))
      << "dq";
  EXPECT_TRUE(test::close_to(key_gradient(tensors, problem, rows.count(), 0), own(expected.dk), tolerance)) << "dk";
  EXPECT_TRUE(test::close_to(key_gradient(tensors, problem, rows.count(), 1), own(expected.dv), tolerance)) << "dv";
  if (problem.sink) {
    EXPECT_TRUE(test::close_to(dsink_of(tensors), expected.dsink, tolerance)) << "dsink";
  }
}

}  // namespace annulus::strategies
