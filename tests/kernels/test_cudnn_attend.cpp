// Attention by several calls of an engine for dense attention, whose results are merged, against the definition. A test
// double stands for cuDNN: only cuDNN's own plans are left to tests on a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "annulus/kernels/cudnn/attend.hpp"
#include "kernels/awkward_case.hpp"
#include "kernels/cudnn_case.hpp"
#include "kernels/cudnn_double.hpp"
#include "kernels/device_backward_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

/// Before the merge, the engine rounds the `out` of each call to the tensors' type: a relative error of 2^-9 or 2^-12.
void expect_forward(kernels::cudnn::Engine& engine, const WorkCase& test, const std::string& what) {
  const double of_rounding = test.type == DType::float32 ? 1e-5 : test.type == DType::float16 ? 1e-3 : 8e-3;
  expect_close(forward_by(engine, test), test, of_rounding, 1e-5, what);
}

TEST(CudnnAttend, PairsOfManySegments) {
  for (const Band mask : {Band::all, Band::upto}) {
    for (const Index kv_heads : {1, 2, 4}) {
      for (const DType type : {DType::bfloat16, DType::float16}) {
        WorkCase test = two_pairs<WorkCase>(kv_heads, type, mask);
        test.fill(4);
        DenseDouble engine;
        expect_forward(engine, test, "kv_heads " + std::to_string(kv_heads) + ", mask " + name_of(mask));
        // One call for the 4 whole segments of each batch entry; one call for the last segments of both batch entries.
        ASSERT_GE(engine.ran.size(), 3U);
        const auto widest = std::max_element(engine.ran.begin(), engine.ran.end(),
                                             [](const auto& a, const auto& b) { return a.batch < b.batch; });
        EXPECT_EQ(widest->batch, 4);
        EXPECT_EQ(widest->heads, 4);
        EXPECT_EQ(widest->kv_heads, kv_heads);
      }
    }
  }
}

TEST(CudnnAttend, AwkwardRows) {
  for (const bool causal : {false, true}) {
    DenseDouble engine;
    expect_forward(engine, awkward_case(40, DType::float16, Precision::float32, causal), causal ? "causal" : "all");
    EXPECT_FALSE(engine.ran.empty());
  }
}

// Queries 0 to 15 first see small scores, in pair (16, 1); then, in pair (32, 4), they see keys 16 to 31 with scores
// of several hundred. If the pairs are swapped, the second pair does not change the maximum and has almost no weight.
TEST(CudnnAttend, LargeAndSmallScoresMeet) {
  WorkCase test = two_pairs<WorkCase>(2, DType::float16, Band::all);
  test.fill();
  const Index of_a_row = test.shape.kv_heads * test.shape.head_dim;
  for (Index i = 16 * of_a_row; i < 32 * of_a_row; ++i) test.k[std::size_t(i)] *= 256;  // float16 has them exactly
  DenseDouble engine;
  expect_forward(engine, test, "large scores");
  std::swap(test.calls[0], test.calls[1]);
  expect_forward(engine, test, "large scores, the other way round");
  EXPECT_GE(engine.ran.size(), 6U);
}

TEST(CudnnAttend, OwnKernelsDoWhatHasNoPlan) {
  WorkCase test = two_pairs<WorkCase>(2, DType::bfloat16, Band::upto);
  test.fill();
  DenseDouble engine;
  engine.why_not = [](const PlanShape& shape) { return shape.queries == 16 ? "no plan of 16" : ""; };
  const kernels::ComputedPairs& computed = kernels::cudnn::computed_pairs();
  const double own = computed.own, library = computed.library;
  expect_forward(engine, test, "some by our own");
  EXPECT_FALSE(engine.ran.empty());
  for (const PlanShape& shape : engine.ran) EXPECT_NE(shape.queries, 16);
  EXPECT_EQ(computed.own - own, 2.0 * 4 * 4 * 16 * 16);
  EXPECT_GT(computed.library, library);
  EXPECT_EQ((kernels::ComputedPairs{30, 10}.library_share()), 0.75);
  EXPECT_TRUE(std::isnan(kernels::ComputedPairs{}.library_share())) << "nothing was done";
  EXPECT_FALSE(kernels::cudnn::describe_pairs().starts_with("0.0 %"));
  EXPECT_NE(kernels::cudnn::describe_pairs().find(", our own kernels the rest: "), std::string::npos);

  engine.ran.clear();
  test.type = DType::float32;
  expect_forward(engine, test, "float32");
  EXPECT_TRUE(engine.ran.empty());
}

TEST(CudnnAttend, GradientsOfPairs) {
  for (const Band mask : {Band::all, Band::upto}) {
    for (const Index kv_heads : {1, 2, 4}) {
      SCOPED_TRACE("kv_heads " + std::to_string(kv_heads) + ", mask " + name_of(mask));
      BackwardCase test = two_pairs<BackwardCase>(kv_heads, DType::float16, mask);
      test.fill_all();
      test.dlse.clear();
      DenseDouble engine;
      expect_gradients(engine, test, 1e-3);  // a call's gradients are float16
      EXPECT_FALSE(engine.ran.empty());
    }
  }
}

TEST(CudnnAttend, GradientsOfAwkwardRows) {
  for (const Band mask : {Band::all, Band::upto, Band::after}) {
    SCOPED_TRACE(name_of(mask));
    BackwardCase test = awkward_backward_case(24, DType::float16, Precision::float32, mask);
    test.dlse.clear();
    test.output_scale = 1;
    DenseDouble engine;
    expect_gradients(engine, test, 1e-3);
    EXPECT_EQ(engine.ran.empty(), mask == Band::after);  // our own kernels compute Band::after
  }
}

// Two key/value heads whose keys lie 20 rows apart are one call.
TEST(CudnnAttend, KeysOfHeadsInRowsOfTheirOwn) {
  BackwardCase test;
  test.shape = {2, 0, 4, 2, 16};
  test.query_rows = 12;
  test.key_rows = 40;
  test.type = DType::float16;
  core::WorkList& list = test.calls.emplace_back();
  list.runs = {{0, 0, 1, 12}, {0, 3, 1, 12}, {0, 23, 1, 12}};
  for (Index kv = 0; kv < 2; ++kv) list.items.push_back({{0, 1, 12}, {kv + 1, 1, 12}, kv, 2 * kv, 1, 2, Band::upto});
  test.fill_all();
  test.dlse.clear();
  DenseDouble engine;
  expect_gradients(engine, test, 1e-3);
  EXPECT_EQ(engine.ran.size(), 1U);
  expect_forward(engine, test, "keys of heads in rows of their own");
  EXPECT_EQ(engine.ran.size(), 2U);
}

TEST(CudnnAttend, GradientsThatItDoesNotMakeAreOurOwn) {
  BackwardCase test = two_pairs<BackwardCase>(4, DType::float16, Band::upto);
  test.fill_all();
  test.dlse.clear();
  DenseDouble engine;
  engine.why_not = [](const PlanShape& shape) { return shape.queries == 16 ? "no plan of 16" : ""; };
  expect_gradients(engine, test, 1e-3);
  EXPECT_FALSE(engine.ran.empty());
  engine.ran.clear();
  test.output_scale = 0.5;
  expect_gradients(engine, test, 3e-5);
  EXPECT_TRUE(engine.ran.empty());
}

// Calls whose shapes agree in everything that a plan depends on share one plan, because making a plan takes long.
TEST(CudnnAttend, PairsOfOneShapeShareItsPlan) {
  WorkCase test = two_pairs<WorkCase>(4, DType::bfloat16, Band::upto);
  test.fill();
  test.calls[1] = test.calls[0];
  DenseDouble engine;
  forward_by(engine, test);
  std::vector<PlanShape> shapes = engine.ran;
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  EXPECT_EQ(shapes.size(), 2U);  // whole segments and the last one
}

// 70 documents of different lengths: making a plan for each would take longer than the work. 64 get a plan.
TEST(CudnnAttend, ManyShapesAreLeftToOurOwn) {
  WorkCase test;
  test.shape = {1, 0, 1, 1, 8};
  test.type = DType::float16;
  core::WorkList& list = test.calls.emplace_back();
  for (Index count = 1; count <= 70; ++count) {
    list.runs.push_back({0, test.query_rows, 1, count});
    list.items.push_back({{count - 1, 1, count}, {count - 1, 1, count}, 0, 0, 1, 1, Band::upto});
    test.query_rows += count;
  }
  test.key_rows = test.query_rows;
  test.fill();
  DenseDouble engine;
  expect_forward(engine, test, "70 lengths");
  EXPECT_EQ(engine.ran.size(), 64U);
}

TEST(CudnnAttend, MemoryIsBounded) {
  const core::Shape shape{2, 0, 4, 2, 16};
  EXPECT_GE(kernels::cudnn::attend_bytes(shape, 77), 2 * 2 * 77 * 4 * 16);
  EXPECT_GE(kernels::cudnn::attend_backward_bytes(shape, 77), 2 * 2 * 77 * (4 + 2 * 2) * 16);
}

}  // namespace
}  // namespace annulus::test
