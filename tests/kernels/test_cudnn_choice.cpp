// Which calls cuDNN may take. Each test takes a call that cuDNN may take, and makes one change to it.
#include <gtest/gtest.h>

#include "annulus/core/error.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/cudnn/choice.hpp"
#include "annulus/kernels/cudnn/plans.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {
namespace {

using core::Precision;

struct Call {
  core::Shape shape{2, 0, 4, 2, 64};
  DType type = DType::bfloat16;
  Precision precision = Precision::float32;
  int exponent_bias = 0;

  std::string why_not() const {
    const kernels::State state(shape, 3, precision, exponent_bias);
    const core::Buffer memory("test tensor", 4096);
    const core::TensorView q = core::contiguous_view(memory.data(), type, 3, shape.heads, shape.head_dim);
    return kernels::cudnn::why_not_attend({q, q, q, 1.0}, state);
  }
};

TEST(CudnnChoice, TakesNumbersOfSixteenBits) {
  EXPECT_EQ(Call{}.why_not(), "");
  EXPECT_EQ(Call{.type = DType::float16}.why_not(), "");
  EXPECT_EQ((Call{.type = DType::float32, .precision = Precision::tf32}.why_not()),
            "cuDNN takes tensors of float16 and bfloat16, these are float32");
  EXPECT_EQ((Call{.type = DType::float64, .precision = Precision::float64}.why_not()),
            "cuDNN takes tensors of float16 and bfloat16, these are float64");
}

TEST(CudnnChoice, LeavesWhatOurOwnTensorCoreKernelsLeave) {
  EXPECT_EQ(Call{.exponent_bias = kernels::reproducible_exponent_bias}.why_not(),
            "the same bits for any cut are asked for");
  EXPECT_EQ((Call{.shape = {1, 0, 4, 4, 20}}.why_not()), "rows of 40 bytes are no multiple of 16");
}

struct BackwardCall {
  DType type = DType::bfloat16, out_type = DType::bfloat16;
  bool any_cut = false, out_known = true;
  double output_scale = 1;
  Index out_offset = 0, more_out_stride = 0;
  bool dk_wanted = true;

  std::string why_not() const {
    const core::Shape shape{2, 0, 4, 2, 64};
    const core::Buffer memory("test tensor", 8192);
    const core::TensorView q = core::contiguous_view(memory.data(), type, 3, 4, 64);
    core::TensorView out = core::contiguous_view(out_known ? memory.at(out_offset) : nullptr, out_type, 3, 4, 64);
    out.row_stride += more_out_stride;
    const core::TensorView dq = core::contiguous_view(memory.data(), DType::float32, 3, 4, 64);
    return kernels::cudnn::why_not_attend_backward(shape, Precision::float32,
                                                   {.q = q,
                                                    .k = q,
                                                    .v = q,
                                                    .dout = q,
                                                    .normalizers = {},
                                                    .delta = {},
                                                    .output_scale = output_scale,
                                                    .any_cut = any_cut,
                                                    .out = out},
                                                   {dq, dk_wanted ? dq : core::TensorView{}, dq});
  }
};

TEST(CudnnChoice, BackwardWantsOutAndNothingMore) {
  EXPECT_EQ(BackwardCall{}.why_not(), "");
  EXPECT_EQ(BackwardCall{.type = DType::float32}.why_not(),
            "cuDNN takes tensors of float16 and bfloat16, these are float32");
  EXPECT_EQ(BackwardCall{.out_type = DType::float16}.why_not(), "out is not stored as q is");
  EXPECT_EQ(BackwardCall{.any_cut = true}.why_not(), "the same bits for any cut are asked for");
  EXPECT_EQ(BackwardCall{.out_known = false}.why_not(), "out is not available, or a gradient of the LSE is given");
  EXPECT_EQ(BackwardCall{.output_scale = 0.5}.why_not(), "the output is scaled by 0.5");
  EXPECT_EQ(BackwardCall{.out_offset = 8}.why_not(), "out does not begin at a multiple of 16 bytes");
  EXPECT_EQ(BackwardCall{.more_out_stride = 4}.why_not(), "out has a stride of 520 bytes, which is no multiple of 16");
  EXPECT_EQ(BackwardCall{.dk_wanted = false}.why_not(), "not all gradients are asked for");
}

// In builds or on machines without cuDNN, auto takes our own back end for all of these calls.
TEST(CudnnChoice, AutoTakesItWhereItRefusesNothing) {
  using kernels::Backend, kernels::default_backend;
  const Backend own = default_backend();
  const Backend best = kernels::why_no_backend(Backend::cudnn).empty() ? Backend::cudnn : own;
  EXPECT_EQ(default_backend({.type = DType::bfloat16}), best);
  EXPECT_EQ(default_backend({.type = DType::float16}), best);
  EXPECT_EQ(default_backend({.type = DType::float32}), own);
  EXPECT_EQ(default_backend({.type = DType::bfloat16, .statistics = true}), own);
  EXPECT_EQ(default_backend({.type = DType::bfloat16, .dlse = true}), own);
  EXPECT_EQ(default_backend({.type = DType::bfloat16, .scaled_gradients = true}), own);
  EXPECT_EQ(default_backend({.type = DType::bfloat16, .reproducible = true}), own);
  EXPECT_EQ(default_backend({.type = DType::bfloat16, .windows_alone = true}), own);
}

TEST(CudnnChoice, SaysWhyThereIsNone) {
  const std::string reason = kernels::cudnn::why_no_cudnn();
  if (!kernels::cudnn::is_built()) {
    EXPECT_EQ(kernels::why_no_backend(kernels::Backend::cudnn), reason);
  }
  EXPECT_EQ(reason.empty(), !kernels::cudnn::cudnn_version().empty());
  if (!reason.empty()) {
    EXPECT_THROW(kernels::cudnn::make_planner({"{}"}), core::Error);
    EXPECT_THROW(kernels::cudnn::make_engine(nullptr), core::Error);
  }
}

}  // namespace
}  // namespace annulus::test
