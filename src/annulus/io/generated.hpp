// Tensors made from a seed instead of read: the same numbers whatever the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/core/random.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::io {

/// Why no tensors of this shape can be made: the extent to change, and what is wrong with it.
struct Objection {
  std::string extent;
  std::string reason;
};
std::optional<Objection> objection_to(const core::Shape& shape);

/// Fills host memory (B, rows, heads, D), heads = kv_heads for k and v, with the rows of the intervals one after
/// another, in settings.type; dlse is (B, rows, heads) in the type of lse. Number = f(seed, tensor, global linear
/// index).
void fill_generated(const GenerateSettings& settings, core::TensorId tensor, const std::vector<core::Interval>& rows,
                    void* host);

}  // namespace annulus::io
