// Makes tensors from a seed. Their numbers do not depend on the number of ranks.
#pragma once

#include <vector>

#include "annulus/core/random.hpp"
#include "annulus/core/types.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::store {

using core::Index;

/// A tensor (B, S, row_numbers) of `type` that is made from a seed. Each number is the standard normal number that
/// core/random.hpp defines for its linear index in the whole tensor, times `scale`, which is rounded to float32. A
/// matrix of n rows is a tensor (1, n, columns).
struct GeneratedTensor {
  core::TensorId id = core::TensorId::q;
  core::DType type = core::DType::float32;
  Index batch = 1;
  Index sequence = 0;
  Index row_numbers = 1;
  double scale = 1;
};
/// Describes one of the tensors that `settings` asks for: q (B, Sq, H D), k (B, S, Hkv D), v (B, S, Hkv Dv),
/// dout (B, Sq, H Dv) or dlse (B, Sq, H).
GeneratedTensor generated(const runfile::GenerateSettings& settings, core::TensorId tensor);

/// Fills host memory (B, rows, row_numbers) with the rows of all intervals, one interval after another.
void fill_tensor(std::uint64_t seed, const GeneratedTensor& tensor, const std::vector<core::Interval>& rows,
                 void* host);

}  // namespace annulus::store
