// Which calls the tensor-core kernels take. Each test takes a call that they accept, and makes one change to it.
#include <gtest/gtest.h>

#include "annulus/kernels/cuda/choice.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {
namespace {

using core::Precision;
using kernels::cuda::why_not_attend;

struct Call {
  core::Shape shape{2, 0, 4, 2, 64};
  DType type = DType::bfloat16;
  Precision precision = Precision::float32;
  int exponent_bias = 0;
  bool entropy = false, exact_sums = false;
  Index offset_of_k = 0, more_row_stride = 0;
  kernels::ScoreRule rule = {};

  std::string why_not() const {
    const Index rows = 3, bytes = Index(core::bytes_of(type));
    kernels::State state(shape, rows, precision, exponent_bias, entropy);
    state.exact_sums = exact_sums;
    const core::Buffer memory("test tensor", 4096);
    core::TensorView q = core::contiguous_view(memory.data(), type, rows, shape.heads, shape.head_dim);
    core::TensorView k =
        core::contiguous_view(memory.at(offset_of_k * bytes), type, rows, shape.kv_heads, shape.head_dim);
    q.row_stride += more_row_stride;
    return why_not_attend({q, k, k, 1.0, {rule.any() ? &rule : nullptr, 0}}, state);
  }
};

TEST(CudaChoice, TakesWhatMatrixUnitsMultiply) {
  EXPECT_EQ(Call{}.why_not(), "");
  EXPECT_EQ(Call{.type = DType::float16}.why_not(), "");
  EXPECT_EQ((Call{.type = DType::float64, .precision = Precision::float64}.why_not()), "");
  EXPECT_EQ((Call{.type = DType::float32, .precision = Precision::tf32}.why_not()), "");
  EXPECT_EQ((Call{.type = DType::float32, .precision = Precision::three_tf32}.why_not()), "");
}

TEST(CudaChoice, LeavesOtherNumbersToTheTeams) {
  EXPECT_EQ(Call{.type = DType::float32}.why_not(), "matrix units have no products of float32 with precision float32");
  EXPECT_EQ(Call{.precision = Precision::float64}.why_not(),
            "matrix units have no products of bfloat16 with precision float64");
  EXPECT_EQ((Call{.type = DType::float64, .precision = Precision::tf32}.why_not()),
            "matrix units have no products of float64 with precision tf32");
  EXPECT_EQ(Call{.precision = Precision::three_tf32}.why_not(),
            "matrix units have no products of bfloat16 with precision 3xtf32");
}

TEST(CudaChoice, LeavesWhatItDoesNotMake) {
  EXPECT_EQ(Call{.exponent_bias = kernels::reproducible_exponent_bias}.why_not(),
            "the same bits for any cut are asked for");
  EXPECT_EQ(Call{.entropy = true}.why_not(), "the entropy is asked for");
  EXPECT_EQ(Call{.rule = {30}}.why_not(), "scores have a cap or a bias");
  EXPECT_EQ((Call{.rule = {0, {0.5, 0.5, 0.5, 0.5}}}.why_not()), "scores have a cap or a bias");
  EXPECT_EQ(Call{.exact_sums = true}.why_not(), "statistics need the sums of exact weights");
  EXPECT_EQ((Call{.type = DType::float64, .precision = Precision::float64, .exact_sums = true}.why_not()), "");
  EXPECT_EQ((Call{.type = DType::float32, .precision = Precision::tf32, .exact_sums = true}.why_not()), "");
}

TEST(CudaChoice, LeavesHeadSizesBeyondTheTiles) {
  EXPECT_EQ((Call{.shape = {1, 0, 1, 1, 256}}.why_not()), "");
  EXPECT_EQ((Call{.shape = {1, 0, 1, 1, 264}}.why_not()), "head size 264 is more than 256");
  EXPECT_EQ((Call{.shape = {1, 0, 1, 1, 136}, .type = DType::float64, .precision = Precision::float64}.why_not()),
            "head size 136 is more than 128");
}

TEST(CudaChoice, LeavesRowsThatAreNoPiecesOfSixteenBytes) {
  EXPECT_EQ((Call{.shape = {1, 0, 4, 4, 20}}.why_not()), "rows of 40 bytes are no multiple of 16");
  EXPECT_EQ(Call{.offset_of_k = 4}.why_not(), "k does not begin at a multiple of 16 bytes");
  EXPECT_EQ(Call{.offset_of_k = 8}.why_not(), "");
  EXPECT_EQ(Call{.more_row_stride = 4}.why_not(), "q has a stride of 520 bytes, which is no multiple of 16");
  EXPECT_EQ(Call{.more_row_stride = 8}.why_not(), "");
}

struct BackwardCall {
  core::Shape shape{2, 0, 4, 2, 64};
  DType type = DType::bfloat16;
  Precision precision = Precision::float32;
  bool any_cut = false;
  Index offset_of_dk = 0;
  kernels::ScoreRule rule = {};

  std::string why_not() const {
    const Index D = shape.head_dim;
    const core::Buffer memory("test tensor", 4096);
    const core::TensorView q = core::contiguous_view(memory.data(), type, 3, shape.heads, D);
    const core::TensorView dq = core::contiguous_view(memory.data(), core::type_of(precision), 3, shape.heads, D);
    core::TensorView dk = dq;
    dk.data = memory.at(offset_of_dk * 4);
    kernels::BackwardOperands operands{
        .q = q, .k = q, .v = q, .dout = q, .normalizers = {}, .delta = {}, .any_cut = any_cut};
    if (rule.any()) operands.rule = {&rule, 0};
    return kernels::cuda::why_not_attend_backward(shape, precision, operands, {dq, dk, dq});
  }
};

TEST(CudaChoice, BackwardTakesWhatForwardTakes) {
  EXPECT_EQ(BackwardCall{}.why_not(), "");
  EXPECT_EQ(BackwardCall{.type = DType::float16}.why_not(), "");
  EXPECT_EQ((BackwardCall{.type = DType::float64, .precision = Precision::float64}.why_not()), "");
  EXPECT_EQ((BackwardCall{.type = DType::float32, .precision = Precision::tf32}.why_not()), "");
  EXPECT_EQ((BackwardCall{.type = DType::float32, .precision = Precision::three_tf32}.why_not()), "");
  EXPECT_EQ(BackwardCall{.type = DType::float32}.why_not(),
            "matrix units have no products of float32 with precision float32");
  EXPECT_EQ(BackwardCall{.precision = Precision::float64}.why_not(),
            "matrix units have no products of bfloat16 with precision float64");
}

TEST(CudaChoice, BackwardLeavesTheRest) {
  EXPECT_EQ(BackwardCall{.any_cut = true}.why_not(), "the same bits for any cut are asked for");
  EXPECT_EQ(BackwardCall{.rule = {30}}.why_not(), "scores have a cap or a bias");
  EXPECT_EQ((BackwardCall{.shape = {1, 0, 1, 1, 256}}.why_not()), "");
  EXPECT_EQ((BackwardCall{.shape = {1, 0, 1, 1, 264}}.why_not()), "head size 264 is more than 256");
  EXPECT_EQ((BackwardCall{.shape = {1, 0, 1, 1, 260}, .type = DType::float32, .precision = Precision::tf32}.why_not()),
            "head size 260 is more than 256");
  EXPECT_EQ(
      (BackwardCall{.shape = {1, 0, 1, 1, 130}, .type = DType::float64, .precision = Precision::float64}.why_not()),
      "head size 130 is more than 128");
  EXPECT_EQ((BackwardCall{.shape = {1, 0, 1, 1, 6}, .type = DType::float32, .precision = Precision::tf32}.why_not()),
            "rows of 24 bytes are no multiple of 16");
  EXPECT_EQ((BackwardCall{.shape = {1, 0, 1, 1, 12}}.why_not()), "rows of 24 bytes are no multiple of 16");
  EXPECT_EQ(BackwardCall{.offset_of_dk = 1}.why_not(), "dk does not begin at a multiple of 16 bytes");
}

}  // namespace
}  // namespace annulus::test
