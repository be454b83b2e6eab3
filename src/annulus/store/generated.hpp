// Tensors made from a seed instead of read: the same numbers whatever the number of ranks.
#pragma once

#include <vector>

#include "annulus/core/random.hpp"
#include "annulus/core/types.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::store {

using core::Index;

/// A tensor (B, S, row_numbers) of `type` made from a seed: the standard normal numbers of core/random.hpp at their
/// global linear index, times `scale` rounded to float32.
/// A matrix of n rows is (1, n, columns).
struct GeneratedTensor {
  core::TensorId id = core::TensorId::q;
  core::DType type = core::DType::float32;
  Index batch = 1;
  Index sequence = 0;
  Index row_numbers = 1;
  double scale = 1;
};
/// q, k, v and dout (B, rows, heads * D), dlse (B, rows, heads), of these settings; heads are kv_heads for k and v.
GeneratedTensor generated(const runfile::GenerateSettings& settings, core::TensorId tensor);

/// Fills host memory (B, rows, row_numbers) with the rows of the intervals one after another.
void fill_tensor(std::uint64_t seed, const GeneratedTensor& tensor, const std::vector<core::Interval>& rows,
                 void* host);

/// The same of generated(settings, tensor).
void fill_generated(const runfile::GenerateSettings& settings, core::TensorId tensor,
                    const std::vector<core::Interval>& rows, void* host);

}  // namespace annulus::store
