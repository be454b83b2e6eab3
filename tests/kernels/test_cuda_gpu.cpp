// The tensor-core kernels on a GPU against the definition and their twins on the host. Only in builds for CUDA.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda_backward_case.hpp"

#include "annulus/core/memory.hpp"
#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "kernels/band_case.hpp"
#include "kernels/ordered_case.hpp"
#include "kernels/split_case.hpp"

namespace annulus::test {
namespace {

int of_gpu(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, attribute, device), cudaSuccess);
  return value;
}

/// True if the GPU has matrix units for these number types (sm_80 or later) and `shared_bytes` bytes of shared memory.
bool can_run(int shared_bytes) {
  return of_gpu(cudaDevAttrComputeCapabilityMajor) >= 8 &&
         of_gpu(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= shared_bytes;
}

template <class Products>
class CudaOnGpu : public testing::Test {
 public:
  static bool can(Index head_dim) {
    int shared_bytes = 0;
    Products::with_block(head_dim, [&](auto block) { shared_bytes = decltype(block)::shared_bytes; });
    return can_run(shared_bytes);
  }
  /// If the GPU cannot run the kernel, attend() must return false.
  static void expect_right(const WorkCase& test, const std::string& what, double tolerance = Products::tolerance) {
    const bool can = CudaOnGpu::can(test.shape.head_dim);
    const auto answer = answer_by(
        test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
          const kernels::Operands operands{qkv[0].view, qkv[1].view, qkv[2].view, scale};
          EXPECT_EQ(kernels::cuda::attend(list, operands, state, {}), can) << what;
        });
    if (!can) return;
    test::expect_right(test, answer, tolerance, what);
    TwinRun how;
    const kernels::ReferenceResult twin = Products::twin(test, how);
    EXPECT_TRUE(close_to(answer.out, twin.out, Products::tolerance)) << "out of the twin, " << what;
    // l is a sum of rounded weights. A weight midway between two numbers may become either, which changes lse.
    const bool is_rounded = Products::type != DType::float64 && Products::precision != core::Precision::three_tf32;
    const double of_lse = is_rounded ? Products::tolerance / 4 : Products::type == DType::float64 ? 1e-12 : 1e-5;
    EXPECT_TRUE(close_to(answer.lse, twin.lse, of_lse)) << "lse of the twin, " << what;
  }
};
TYPED_TEST_SUITE(CudaOnGpu, AllProducts);

TYPED_TEST(CudaOnGpu, EveryHeadSize) {
  for (const Index head_dim : TypeParam::head_dims) {
    for (const bool causal : {false, true}) {
      this->expect_right(awkward_case(head_dim, TypeParam::type, TypeParam::precision, causal),
                         "D = " + std::to_string(head_dim) + (causal ? ", causal" : ""));
    }
  }
}

TYPED_TEST(CudaOnGpu, LongRows) {
  for (const core::Band mask : {core::Band::all, core::Band::upto, core::Band::after}) {
    this->expect_right(long_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, mask),
                       "long rows, mask " + name_of(mask));
  }
}

TYPED_TEST(CudaOnGpu, BandsWithTwoEnds) {
  for (const core::Band& band : window_bands) {
    const WorkCase rows = awkward_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, false);
    this->expect_right(with_band(rows, band), name_of(band));
    this->expect_right(long_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, band),
                       "long rows, " + name_of(band));
  }
}

TYPED_TEST(CudaOnGpu, ManyKeysAreSplit) {
  const auto peak = [] { return core::memory_ledger().peak_by_purpose()["partial states"]; };
  for (const Index head_dim : {TypeParam::head_dims[0], TypeParam::head_dims[1]}) {
    kernels::device::release_kept_lists();
    core::memory_ledger().reset_peak();
    this->expect_right(few_queries_case(head_dim, TypeParam::type, TypeParam::precision), "few queries, few keys");
    EXPECT_EQ(peak(), 0);
    this->expect_right(many_keys_case(head_dim, TypeParam::type, TypeParam::precision), "few queries, many keys");
    EXPECT_EQ(peak() > 0, this->can(head_dim)) << "D = " << head_dim;
  }
}

// Repeated launches give the same bits. They would not if a thread read what another has not yet written.
TYPED_TEST(CudaOnGpu, SameBitsEveryTime) {
  const Index head_dim = TypeParam::head_dims[1];
  for (const WorkCase& test : {long_case(head_dim, TypeParam::type, TypeParam::precision, core::Band::upto),
                               many_keys_case(head_dim, TypeParam::type, TypeParam::precision)}) {
    const auto run = [&] {
      return answer_by(
          test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
            kernels::cuda::attend(list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, state, {});
          });
    };
    const kernels::ReferenceResult first = run();
    for (int i = 0; i < 20; ++i) {
      const kernels::ReferenceResult again = run();
      EXPECT_EQ(again.out, first.out) << i;
      EXPECT_EQ(again.lse, first.lse) << i;
    }
  }
}

template <class Products>
class CudaBackwardOnGpu : public testing::Test {
 public:
  static void expect_right(const BackwardCase& test, const std::string& what,
                           double tolerance = Products::gradient_tolerance) {
    SCOPED_TRACE(what);
    const bool can = can_run(backward_shared_bytes<Products>(test.shape.head_dim));
    const BackwardAnswer known = naive_backward(test);
    const Gradients actual = gradients_by(test, known, [&](const core::WorkList& list, const BackwardTensors& tensors) {
      EXPECT_EQ(kernels::cuda::attend_backward(list, test.shape, test.precision, tensors.operands(test),
                                               tensors.gradients(), {}),
                can);
    });
    if (!can) return;
    expect_close(actual, known.gradients, tolerance);
    TwinRun how;
    expect_close(actual, twin_gradients<Products>(test, known, how), Products::gradient_tolerance);
  }
};
TYPED_TEST_SUITE(CudaBackwardOnGpu, AllProducts);

TYPED_TEST(CudaBackwardOnGpu, EveryHeadSizeAndMask) {
  for (const Index head_dim : TypeParam::backward_dims) {
    for (const core::Band mask : {core::Band::all, core::Band::upto, core::Band::after}) {
      this->expect_right(awkward_backward_case(head_dim, TypeParam::type, TypeParam::precision, mask),
                         "D " + std::to_string(head_dim) + ", mask " + name_of(mask));
    }
  }
}

TYPED_TEST(CudaBackwardOnGpu, BandsWithTwoEnds) {
  for (const core::Band& band : window_bands) {
    const Index head_dim = TypeParam::backward_dims[0];
    const BackwardCase rows = awkward_backward_case(head_dim, TypeParam::type, TypeParam::precision, core::Band::all);
    this->expect_right(with_band(rows, band), name_of(band));
  }
}

TYPED_TEST(CudaBackwardOnGpu, LongRows) {
  this->expect_right(long_backward_case(32, TypeParam::type, TypeParam::precision, core::Band::upto), "long rows");
}

// A hidden key has weight 0. Its product with a large number must not change which digits of a sum the unit keeps.
// There are 64 rows, each of which sees the keys up to its own row, so a granule can have visible and hidden keys.
template <class Products>
struct HiddenRows : BackwardCase {
  static constexpr Index rows = 64, D = 64;
  HiddenRows() {
    shape = {1, 0, 1, 1, D};
    query_rows = key_rows = rows;
    type = Products::type;
    precision = Products::precision;
    calls.resize(1);
    calls[0].runs = {{0, 0, 1, rows}};
    calls[0].items = {{{0, 1, rows}, {0, 1, rows}, 0, 0, 1, 1, core::Band::upto}};
    fill_all();
  }
  static double large() { return Products::type == DType::float16 ? 6e4 : 1e30; }
  void put(std::vector<double>& tensor, Index first, Index end, double number) const {
    std::fill(tensor.begin() + first * D, tensor.begin() + end * D, number);
    tensor = rounded(tensor, type);
  }
  static std::vector<double> taken(const std::vector<double>& tensor, Index first, Index end) {
    return {tensor.begin() + first * D, tensor.begin() + end * D};
  }
  Gradients gradients() const {
    return gradients_by(*this, naive_backward(*this), [&](const core::WorkList& list, const BackwardTensors& tensors) {
      EXPECT_TRUE(
          kernels::cuda::attend_backward(list, shape, precision, tensors.operands(*this), tensors.gradients(), {}));
    });
  }
};

// Compares the sums of the first four rows, from which all keys after row 3 are hidden.
TYPED_TEST(CudaOnGpu, HiddenKeysLeaveTheBitsOfSums) {
  if (!this->can(64)) return;
  const auto acc = [&](double hidden) {
    HiddenRows<TypeParam> test;
    test.put(test.v, 4, test.rows, hidden);
    kernels::ReferenceResult answer;
    const StateBits bits = state_by(
        test, answer, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& to) {
          EXPECT_TRUE(kernels::cuda::attend(list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, to, {}));
        });
    return HiddenRows<TypeParam>::taken(bits.acc, 0, 4);
  };
  EXPECT_EQ(acc(HiddenRows<TypeParam>::large()), acc(0));
}

TYPED_TEST(CudaBackwardOnGpu, HiddenKeysLeaveTheBitsOfSums) {
  if (!can_run(backward_shared_bytes<TypeParam>(64))) return;
  const auto dq = [&](double hidden) {
    HiddenRows<TypeParam> test;
    test.put(test.k, 4, test.rows, hidden);
    test.put(test.v, 4, test.rows, hidden);
    return test.taken(test.gradients().dq, 0, 4);
  };
  EXPECT_EQ(dq(HiddenRows<TypeParam>::large()), dq(0));
}

// Compares the sums of the last four keys, which no earlier query sees.
TYPED_TEST(CudaBackwardOnGpu, HiddenQueriesLeaveTheBitsOfSums) {
  if (!can_run(backward_shared_bytes<TypeParam>(64))) return;
  const auto sums = [&](double hidden) {
    HiddenRows<TypeParam> test;
    test.put(test.q, 0, test.rows - 4, hidden);
    test.put(test.dout, 0, test.rows - 4, hidden);
    const Gradients all = test.gradients();
    return std::pair(test.taken(all.dk, test.rows - 4, test.rows), test.taken(all.dv, test.rows - 4, test.rows));
  };
  EXPECT_EQ(sums(HiddenRows<TypeParam>::large()), sums(0));
}

// A GPU's matrix units may add up a granule in any order; our code fixes the order of the granules.
template <class Products>
void expect_same_bits_for_any_cut(const OrderedCase& rows) {
  if (!can_run(backward_shared_bytes<Products>(rows.shape.head_dim))) return;
  if (!CudaOnGpu<Products>::can(rows.shape.head_dim)) return;
  const auto state = [&](const Cuts& cuts, kernels::ReferenceResult& answer) {
    return state_by(rows.with(Products::type, Products::precision, cuts), answer,
                    [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& to) {
                      EXPECT_TRUE(kernels::cuda::attend(list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, to, {}));
                    });
  };
  const BackwardCase whole = rows.with(Products::type, Products::precision, {});
  kernels::ReferenceResult answer, other;
  const StateBits expected = state({}, answer);
  test::expect_right(whole, answer, Products::tolerance, name_of({}, rows.causal));
  const BackwardAnswer known = naive_backward(whole);
  const auto gradients = [&](const Cuts& cuts) {
    const BackwardCase test = rows.with(Products::type, Products::precision, cuts);
    return gradients_by(test, known, [&](const core::WorkList& list, const BackwardTensors& tensors) {
      kernels::BackwardOperands operands = tensors.operands(test);
      operands.by_granules = true;
      EXPECT_TRUE(kernels::cuda::attend_backward(list, test.shape, test.precision, operands, tensors.gradients(), {}));
    });
  };
  const Gradients all = gradients({});
  expect_close(all, known.gradients, Products::gradient_tolerance);
  for (const Cuts& cuts : cuts_of_granules) {
    SCOPED_TRACE(name_of(cuts, rows.causal));
    EXPECT_EQ(state(cuts, other), expected);
    expect_same_bits(gradients(cuts), all);
  }
}

TYPED_TEST(CudaBackwardOnGpu, SameBitsForAnyCutBetweenGranules) {
  for (const bool causal : {false, true}) expect_same_bits_for_any_cut<TypeParam>({300, causal, {2, 0, 4, 2, 64}});
}

TYPED_TEST(CudaBackwardOnGpu, SameBitsForAnyCutBetweenGranulesOfLargeHeads) {
  expect_same_bits_for_any_cut<TypeParam>({150, false, {1, 0, 2, 1, *std::rbegin(TypeParam::backward_dims)}});
}

// Results must not show that matrix units truncate sums. (Twins truncate as an H100 is known to do.)
TEST(CudaOnGpuNumbers, ThreeTf32SumsUpLongRowsAsFloatsAre) {
  CudaOnGpu<ThreeTf32Products>::expect_right(long_rows(40, 8000), "8,000 keys", 5e-7);
  CudaBackwardOnGpu<ThreeTf32Products>::expect_right(many_queries_case(), "4,000 queries", 2e-6);
}

}  // namespace
}  // namespace annulus::test
