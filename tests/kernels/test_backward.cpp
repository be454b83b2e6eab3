// The functions of backward.hpp on whole problems, as a strategy calls them on one rank: compared with the reference,
// on every back end of this build. Numbers are stored as the program stores them: out, lse and delta are rounded.
#include "annulus/kernels/backward.hpp"

#include <gtest/gtest.h>

#include <string>

#include "annulus/core/error.hpp"
#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using core::WorkList;
using kernels::Backend;
using kernels::Gradient;
using kernels::ReferenceGradients;
using kernels::ReferenceSemantics;

std::vector<Backend> backends() {
  std::vector<Backend> all{Backend::device};
  if (core::device_is_host()) all.push_back(Backend::host);
  return all;
}

/// Appends the rows that `segment` has at this dilation and offset to the list's runs, one run for each row, so that
/// the room pattern is not needed. t counts the rows.
core::RowMap comb(WorkList& list, core::Interval segment, Index dilation, Index offset) {
  core::RowMap map{Index(list.runs.size()), 0, 0};
  for (Index row = segment.begin; row < segment.end; ++row) {
    if ((row - segment.begin) % dilation != offset) continue;
    list.runs.push_back({map.count++, row, 1, 1});
    ++map.runs;
  }
  return map;
}

/// The problem as work lists in semantics longnet: for each pair, one list for the first query head of all key/value
/// heads, one for the second, and so on. So no list has a (key row, key/value head) twice.
std::vector<WorkList> work_of(const AttentionCase& problem) {
  const core::Shape& shape = problem.shape;
  std::vector<Index> documents = problem.pattern.documents;
  if (documents.empty()) documents = {0, shape.sequence};
  std::vector<WorkList> lists;
  for (const kernels::ReferencePair pair : problem.pattern.pairs) {
    for (Index member = 0; member < shape.group(); ++member) {
      WorkList list;
      for (Index kv = 0; kv < shape.kv_heads; ++kv) {
        const Index head = kv * shape.group() + member;
        const Index offset = head / core::ceil_div(shape.heads, pair.dilation);
        for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
          const Index length = pair.segment > 0 ? pair.segment : documents[i + 1] - documents[i];
          for (Index begin = documents[i]; begin < documents[i + 1]; begin += length) {
            const core::RowMap rows =
                comb(list, {begin, std::min(begin + length, documents[i + 1])}, pair.dilation, offset);
            if (rows.count == 0) continue;
            list.items.push_back({rows, rows, kv, head, 1, 1, problem.pattern.causal ? Band::upto : Band::all});
          }
        }
      }
      lists.push_back(list);
    }
  }
  return lists;
}

/// Calls backward_delta(), attend_backward(), finish_gradient(). Returns gradients in the storage type.
ReferenceGradients backward_pass(Backend backend, const AttentionCase& problem, const kernels::ReferenceResult& forward,
                                 Precision precision, bool with_dlse, const std::function<void()>& poll = {}) {
  const core::Shape& shape = problem.shape;
  const Index S = shape.sequence, H = shape.heads, D = shape.head_dim;
  const DType sums = precision == Precision::float64 ? DType::float64 : DType::float32;
  const auto queries = [&](const std::vector<double>& values, DType type, Index width) {
    return to_device(values, type, S, H, width);
  };
  const auto keys = [&](const std::vector<double>& values, DType type) {
    return to_device(values, type, S, shape.kv_heads, D);
  };
  const std::vector<double> q = problem.q(), k = problem.k();
  const DeviceTensor q_tensor = queries(q, problem.type, D), k_tensor = keys(k, problem.type),
                     v_tensor = keys(problem.v(), problem.type), dout = queries(problem.dout(), problem.type, D),
                     dlse = queries(problem.dlse(), problem.type, 1), out = queries(forward.out, problem.type, D),
                     normalizers = queries(normalizers_of(forward.lse), sums, 2),
                     delta = queries(std::vector<double>(forward.lse.size(), 1234.0), sums, 1);
  const DeviceTensor dq = queries(std::vector<double>(q.size()), sums, D),
                     dk = keys(std::vector<double>(k.size()), sums), dv = keys(std::vector<double>(k.size()), sums);

  const double output_scale = problem.pattern.group_scale ? 1.0 / double(problem.pattern.pairs.size()) : 1.0;
  kernels::backward_delta(backend, shape, S, out.view, dout.view, with_dlse ? dlse.view : core::TensorView{},
                          delta.view);
  const kernels::BackwardOperands operands{q_tensor.view,    k_tensor.view, v_tensor.view,         dout.view,
                                           normalizers.view, delta.view,    problem.pattern.scale, output_scale};
  for (const WorkList& list : work_of(problem)) {
    kernels::attend_backward(backend, list, shape, S, precision, operands, {dq.view, dk.view, dv.view}, poll);
  }
  const auto finished = [&](Gradient which, const DeviceTensor& from, Index heads) {
    const Index count = shape.batch * S * heads * D;
    const DeviceTensor to = to_device(std::vector<double>(std::size_t(count), 1234.0), problem.type, S, heads, D);
    kernels::finish_gradient(backend, which, shape.batch, S, heads, D, precision, from.view, to.view,
                             problem.pattern.scale, output_scale);
    return from_device(to.buffer, count, problem.type);
  };
  return {finished(Gradient::dq, dq, H), finished(Gradient::dk, dk, shape.kv_heads),
          finished(Gradient::dv, dv, shape.kv_heads)};
}

void expect_reference(const AttentionCase& problem, Precision precision, bool with_dlse, const std::string& what) {
  const kernels::ReferenceResult forward = problem.reference();
  const ReferenceGradients expected = problem.reference_gradients(with_dlse);
  for (const Backend backend : backends()) {
    const ReferenceGradients actual = backward_pass(backend, problem, forward, precision, with_dlse);
    const double allowed = core::gradient_tolerance(problem.type);
    const std::string where = what + (backend == Backend::host ? ", host" : ", device");
    EXPECT_TRUE(close_to(actual.dq, expected.dq, allowed)) << "dq, " << where;
    EXPECT_TRUE(close_to(actual.dk, expected.dk, allowed)) << "dk, " << where;
    EXPECT_TRUE(close_to(actual.dv, expected.dv, allowed)) << "dv, " << where;
  }
}

AttentionCase dilated_problem() {
  AttentionCase problem;
  problem.shape = {2, 97, 6, 3, 24};
  problem.pattern.pairs = {{32, 1}, {40, 3}, {kernels::whole_document, 4}};
  problem.pattern.scale = 0.2;
  return problem;
}

TEST(Backward, WholeProblemsInEveryType) {
  for (const DType type : core::all_dtypes) {
    for (const bool causal : {false, true}) {
      for (const bool with_dlse : {false, true}) {
        AttentionCase problem = dilated_problem();
        problem.type = type;
        problem.pattern.causal = causal;
        expect_reference(problem, core::default_precision(type), with_dlse,
                         std::string(core::name_of(type)) + (causal ? ", causal" : "") + (with_dlse ? ", dlse" : ""));
      }
    }
  }
}

TEST(Backward, DocumentsAndOutputScale) {
  AttentionCase problem = dilated_problem();
  problem.pattern.documents = {0, 1, 1, 64, 97};
  problem.pattern.group_scale = true;
  expect_reference(problem, Precision::float32, true, "documents");
}

TEST(Backward, RowsInNoPair) {
  AttentionCase problem = dilated_problem();
  problem.pattern.pairs = {{20, 7}};  // a head picks one row in seven; for the others its lse is -inf
  expect_reference(problem, Precision::float64, true, "few rows");
}

TEST(Backward, LargeHeadsAndOddSizes) {
  for (const core::Shape shape :
       {core::Shape{1, 67, 2, 1, 256}, core::Shape{1, 90, 5, 5, 1}, core::Shape{3, 1, 1, 1, 7}}) {
    AttentionCase problem;
    problem.shape = shape;
    problem.pattern.causal = true;
    problem.pattern.scale = 0.1;
    expect_reference(problem, Precision::float32, false, "D = " + std::to_string(shape.head_dim));
  }
}

TEST(Backward, TypesMustFit) {
  const core::TensorView single{nullptr, DType::float32, 0, 0, 0}, half{nullptr, DType::float16, 0, 0, 0};
  const core::Shape shape{1, 1, 1, 1, 1};
  for (const Backend backend : backends()) {
    EXPECT_THROW(kernels::attend_backward(backend, {}, shape, 1, Precision::float32,
                                          {half, half, half, single, single, single}, {single, single, single}),
                 core::Error);
    EXPECT_THROW(kernels::attend_backward(backend, {}, shape, 1, Precision::float64,
                                          {half, half, half, half, single, single}, {single, single, single}),
                 core::Error);
    const core::TensorView wide{nullptr, DType::float64, 0, 0, 0};
    EXPECT_THROW(kernels::attend_backward(backend, {}, shape, 1, Precision::float32,
                                          {half, half, half, half, wide, single}, {single, single, single}),
                 core::Error);
    EXPECT_NO_THROW(kernels::attend_backward(backend, {}, shape, 1, Precision::float32,
                                             {half, half, half, half, single, single}, {single, single, single}));
  }
}

TEST(Backward, ADeviceNeedsNoPanels) {
  EXPECT_EQ(kernels::attend_backward_bytes(Backend::device, {1, 1000, 8, 8, 64}, 1000, Precision::float32), 0);
}

TEST(Backward, PollsAtLeastOnceForEachList) {
  const AttentionCase problem = dilated_problem();
  for (const Backend backend : backends()) {
    std::size_t polls = 0;
    backward_pass(backend, problem, problem.reference(), Precision::float32, false, [&] { ++polls; });
    EXPECT_GE(polls, work_of(problem).size());
  }
}

}  // namespace
}  // namespace annulus::test
