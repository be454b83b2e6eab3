// The kinds of products of the tensor-core kernels, for typed tests, and cases for all of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda_case.hpp"

#include "annulus/kernels/cuda/backward_block.hpp"
#include "annulus/kernels/cuda/forward_block.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {

inline void expect_right(const WorkCase& test, const kernels::ReferenceResult& actual, double allowed,
                         const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  EXPECT_TRUE(close_to(actual.out, expected.out, allowed)) << "out, " << what;
  EXPECT_TRUE(close_to(actual.lse, expected.lse, allowed)) << "lse, " << what;
}

/// One kind of products, and its tables of block sizes by head size: one for the forward pass, and for the backward
/// pass one for blocks that own queries and one for blocks that own keys.
template <template <class, int> class Engine, class Number, DType stored, const auto& table, const auto& query_table,
          const auto& key_table, core::Precision wanted = core::default_precision(stored)>
struct Kind {
  static constexpr DType type = stored;
  static constexpr core::Precision precision = wanted;

  /// Calls visit(block) with the first block that has enough columns. A launch tries it first; if the GPU has too
  /// little shared memory for it, the launch tries the next blocks.
  template <std::size_t entry = 0, class Visit>
  static void with_block(Index head_dim, const Visit& visit) {
    if (head_dim <= table[entry].columns) return visit(kernels::cuda::ForwardBlock<Engine, Number, table[entry]>{});
    if constexpr (entry + 1 < std::size(table)) with_block<entry + 1>(head_dim, visit);
  }
  /// As with_block(), for State::by_granules.
  template <std::size_t entry = 0, class Visit>
  static void with_ordered_block(Index head_dim, const Visit& visit) {
    if (head_dim <= table[entry].columns)
      return visit(kernels::cuda::ForwardBlock<Engine, Number, table[entry], true>{});
    if constexpr (entry + 1 < std::size(table)) with_ordered_block<entry + 1>(head_dim, visit);
  }
  /// As with_block(), for the backward pass, which launches one block program for dq and one for dk and dv.
  template <std::size_t entry = 0, class Visit>
  static void with_backward_blocks(Index head_dim, const Visit& visit) {
    using namespace kernels::cuda;
    constexpr TileSizes queries = query_table[entry], keys = key_table[entry];
    if (head_dim <= queries.columns) {
      visit(BackwardBlock<Engine, Number, Adds::dq, queries>{});
      visit(BackwardBlock<Engine, Number, Adds::dk_and_dv, keys>{});
    } else if constexpr (entry + 1 < std::size(query_table)) {
      with_backward_blocks<entry + 1>(head_dim, visit);
    }
  }
  static kernels::ReferenceResult twin(const WorkCase& test, TwinRun& how) {
    kernels::ReferenceResult answer;
    with_block(test.shape.head_dim, [&](auto block) { answer = twin_answer<decltype(block)>(test, how); });
    return answer;
  }
};
/// head_dims and backward_dims have a head size for each block that with_block() and with_backward_blocks() visit. If
/// several kinds have the same block size, perhaps only the first of these kinds tests it.
struct BFloat16Products : Kind<kernels::cuda::Engine16, core::BFloat16, DType::bfloat16, kernels::cuda::sizes_16,
                               kernels::cuda::query_sizes_16, kernels::cuda::key_sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::bfloat16);
  static constexpr double gradient_tolerance = core::gradient_tolerance(DType::bfloat16);
  static constexpr Index head_dims[] = {8, 40, 64, 80, 128, 192, 256};
  static constexpr Index backward_dims[] = {8, 64, 80, 136, 256};
};
struct Float16Products : Kind<kernels::cuda::Engine16, core::Half, DType::float16, kernels::cuda::sizes_16,
                              kernels::cuda::query_sizes_16, kernels::cuda::key_sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
  static constexpr double gradient_tolerance = core::gradient_tolerance(DType::float16);
  static constexpr Index head_dims[] = {32, 128};
  static constexpr Index backward_dims[] = {8, 128};
};
/// TF32 has ten bits of mantissa, as float16 has, so it gets the same tolerances.
struct Tf32Products : Kind<kernels::cuda::EngineTf32, float, DType::float32, kernels::cuda::sizes_tf32,
                           kernels::cuda::query_sizes_tf32, kernels::cuda::key_sizes_tf32, core::Precision::tf32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
  static constexpr double gradient_tolerance = core::gradient_tolerance(DType::float16);
  static constexpr Index head_dims[] = {4, 64, 80, 256};
  static constexpr Index backward_dims[] = {4, 64, 80, 132};
};
struct ThreeTf32Products
    : Kind<kernels::cuda::Engine3xTf32, float, DType::float32, kernels::cuda::sizes_3xtf32,
           kernels::cuda::query_sizes_3xtf32, kernels::cuda::key_sizes_3xtf32, core::Precision::three_tf32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float32);
  static constexpr double gradient_tolerance = core::gradient_tolerance(DType::float32);
  static constexpr Index head_dims[] = {32, 64, 80};
  static constexpr Index backward_dims[] = {12, 64, 128, 132};
};
struct Float64Products : Kind<kernels::cuda::Engine64, double, DType::float64, kernels::cuda::sizes_64,
                              kernels::cuda::query_sizes_64, kernels::cuda::key_sizes_64> {
  static constexpr double tolerance = core::forward_tolerance(DType::float64);
  static constexpr double gradient_tolerance = core::gradient_tolerance(DType::float64);
  static constexpr Index head_dims[] = {2, 40, 80};
  static constexpr Index backward_dims[] = {2, 40, 80};
};

using AllProducts = testing::Types<BFloat16Products, Float16Products, Tf32Products, ThreeTf32Products, Float64Products>;

/// 150 queries in every 2nd row and 280 keys in every 3rd: several blocks of queries and several tiles of keys.
inline WorkCase long_case(Index head_dim, DType type, core::Precision precision, core::Band mask) {
  WorkCase test;
  test.shape = {1, 0, 1, 1, head_dim};
  test.query_rows = 420;
  test.key_rows = 900;
  test.type = type;
  test.precision = precision;
  test.calls.resize(1);
  test.calls[0].runs = {{100, 5, 2, 150}, {20, 10, 3, 280}};
  test.calls[0].items = {{{0, 1, 150}, {1, 1, 280}, 0, 0, 1, 1, mask}};
  test.fill();
  return test;
}

/// One head whose queries see all keys, in precision 3xtf32 (three products of TF32).
inline WorkCase long_rows(Index queries, Index keys) {
  WorkCase test;
  test.shape = {1, 0, 1, 1, 32};
  test.query_rows = queries;
  test.key_rows = keys;
  test.type = ThreeTf32Products::type;
  test.precision = ThreeTf32Products::precision;
  test.calls.resize(1);
  test.calls[0].runs = {{0, 0, 1, queries}, {0, 0, 1, keys}};
  test.calls[0].items = {{{0, 1, queries}, {1, 1, keys}, 0, 0, 1, 1, core::Band::all}};
  test.fill();
  return test;
}

}  // namespace annulus::test
