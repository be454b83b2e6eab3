// Runs an attention through the library on all ranks, and compares it with the float64 definition.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "annulus/kernels/attention.hpp"
#include "held_tensors.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {

struct LibraryCase {
  std::string name;
  Shape shape;
  Pattern pattern;
  Options options = {};
  TensorLayout lies = TensorLayout::bshd;
};

/// The message of the usage error that a call throws; empty: it throws none.
template <class Call>
std::string usage_error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

inline kernels::ReferencePattern reference_of(const LibraryCase& test) {
  kernels::ReferencePattern made;
  using kernels::ReferenceSemantics;
  const std::string& name = test.pattern.semantics;
  made.semantics = name == "paper"        ? ReferenceSemantics::paper
                   : name == "grouped"    ? ReferenceSemantics::grouped
                   : name == "torchscale" ? ReferenceSemantics::torchscale
                                          : ReferenceSemantics::longnet;
  made.pairs.clear();
  for (std::size_t i = 0; i < test.pattern.segments.size(); ++i) {
    const Segment& segment = test.pattern.segments[i];
    made.pairs.push_back({segment.rows, test.pattern.dilations[i]});
    if (segment.window) made.pairs.back().window = {segment.window->left, segment.window->right, segment.window->first};
  }
  made.causal = test.pattern.causal;
  made.scale = test.pattern.scale.value_or(1 / std::sqrt(double(test.shape.head_dim)));
  made.group_scale = test.pattern.group_scale;
  made.documents = test.pattern.documents;
  made.softcap = test.pattern.softcap.value_or(0);
  if (test.pattern.bias) {
    made.slopes = test.pattern.bias->slopes;
    made.exempt = test.pattern.bias->exempt;
    made.coordinates = test.pattern.bias->coordinates;
  }
  if (!made.documents.empty() && made.documents.back() < test.shape.sequence) {
    made.gaps = {Index(made.documents.size()) - 1};
    made.documents.push_back(test.shape.sequence);
  }
  for (Index h = 0; test.pattern.sink && h < test.shape.heads; ++h) {
    made.sink.push_back(std::array{0.5, -std::numeric_limits<double>::infinity(), 2.0, -3.0}[std::size_t(h % 4)]);
  }
  return made;
}

/// The numbers of a whole case, the shapes of a rank's tensors, and the rows that the rank has.
class Whole {
 public:
  Whole(const LibraryCase& test, const Plan& plan, int rank)
      : shape_(plan.shape()),
        rows_(plan.rows(rank)),
        numbers_{{shape_.batch, shape_.sequence, shape_.heads, shape_.kv_heads, shape_.head_dim},
                 reference_of(test),
                 shape_.type,
                 3,
                 1} {
    numbers_.shape.set_value_dim(shape_.value_dim);
  }

  std::array<Index, 4> queries() const { return {shape_.batch, rows_.count(), shape_.heads, shape_.head_dim}; }
  std::array<Index, 4> keys() const { return {shape_.batch, rows_.count(), shape_.kv_heads, shape_.head_dim}; }
  /// outs(): the extents of out and dout. values(): those of v.
  std::array<Index, 4> outs() const { return {shape_.batch, rows_.count(), shape_.heads, shape_.value_dim}; }
  std::array<Index, 4> values() const { return {shape_.batch, rows_.count(), shape_.kv_heads, shape_.value_dim}; }
  std::array<Index, 4> heads() const { return {shape_.batch, rows_.count(), shape_.heads, 1}; }
  std::vector<double> mine(const std::vector<double>& whole) const {
    return take_rows(whole, shape_.batch, shape_.sequence, rows_.intervals);
  }
  const AttentionCase& numbers() const { return numbers_; }

 private:
  Shape shape_;
  Rows rows_;
  AttentionCase numbers_;
};

/// The precision of the case; for `auto` the least exact one that it may mean on this machine.
inline core::Precision precision_of(const LibraryCase& test) {
  for (const core::Precision precision : core::all_precisions) {
    if (core::name_of(precision) == test.options.precision) return precision;
  }
  return kernels::default_precision(kernels::default_backend(), test.shape.type, false);
}

/// Computes the case on all ranks of `comm` and checks this rank's rows.
inline void expect_definition(const LibraryCase& test, const Communicator& comm) {
  SCOPED_TRACE(test.name);
  const Plan plan(test.shape, test.pattern, comm.size(), test.options);
  const Whole whole(test, plan, comm.rank());
  const DType type = plan.shape().type, lse_type = core::lse_type(type);
  const TestTensor q(whole.mine(whole.numbers().q()), type, whole.queries(), test.lies);
  const TestTensor k(whole.mine(whole.numbers().k()), type, whole.keys(), test.lies);
  const TestTensor v(whole.mine(whole.numbers().v()), type, whole.values(), test.lies);
  const TestTensor out(type, whole.outs(), test.lies), lse(lse_type, whole.heads(), test.lies);
  const std::array<Index, 4> logits{1, 1, plan.shape().heads, 1};
  const std::vector<double> scores = reference_of(test).sink;
  const TestTensor sink(scores.empty() ? std::vector<double>(std::size_t(logits[2])) : scores, DType::float32, logits,
                        test.lies);
  std::array<Index, 4> pairs = whole.heads();
  pairs[3] = 2;
  const bool in_double = type == DType::float64 || test.options.precision == "float64";
  const TestTensor kept(in_double ? DType::float64 : DType::float32, pairs, test.lies);
  ForwardTensors given{q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()};
  if (test.pattern.sink) given.sink = sink.tensor();
  if (test.options.gradients) given.normalizers = kept.tensor();
  const Normalizers normalizers = forward(comm, plan, given);
  const kernels::ReferenceResult expected = whole.numbers().reference();
  const core::Precision precision = precision_of(test);
  const double forward_limit = std::max(core::forward_tolerance(type), core::forward_tolerance(precision));
  const double limit = std::max(core::gradient_tolerance(type), core::gradient_tolerance(precision));
  EXPECT_TRUE(close_to(out.values(), whole.mine(expected.out), forward_limit));
  const DType sums = type == DType::bfloat16 ? type : lse_type;  // products may be in bfloat16
  EXPECT_TRUE(close_to(lse.values(), whole.mine(expected.lse),
                       std::max(core::forward_tolerance(sums), core::forward_tolerance(precision))));
  EXPECT_EQ(normalizers.empty(), !test.options.gradients);
  if (!test.options.gradients) return;

  const TestTensor dout(whole.mine(whole.numbers().dout()), type, whole.outs(), test.lies);
  const TestTensor dlse(whole.mine(whole.numbers().dlse()), lse_type, whole.heads(), test.lies);
  const kernels::ReferenceGradients gradients = whole.numbers().reference_gradients(true);
  for (const bool from_tensor : {false, true}) {
    SCOPED_TRACE(from_tensor ? "normalizers in the caller's memory" : "normalizers that forward() returned");
    const TestTensor dq(type, whole.queries(), test.lies), dk(type, whole.keys(), test.lies);
    const TestTensor dv(type, whole.values(), test.lies), dsink(lse_type, logits, test.lies);
    BackwardTensors tensors{q.tensor(),    k.tensor(),  v.tensor(),  out.tensor(), dout.tensor(),
                            dlse.tensor(), dq.tensor(), dk.tensor(), dv.tensor()};
    if (test.pattern.sink) tensors.dsink = dsink.tensor();
    if (from_tensor) tensors.normalizers = kept.tensor();
    if (from_tensor && test.pattern.sink) tensors.sink = sink.tensor();
    backward(comm, plan, from_tensor ? Normalizers() : normalizers, tensors);
    EXPECT_TRUE(close_to(dq.values(), whole.mine(gradients.dq), limit));
    EXPECT_TRUE(close_to(dk.values(), whole.mine(gradients.dk), limit));
    EXPECT_TRUE(close_to(dv.values(), whole.mine(gradients.dv), limit));
    if (test.pattern.sink) {
      EXPECT_TRUE(close_to(dsink.values(), gradients.dsink, limit));
    }
  }
}

}  // namespace annulus::test
