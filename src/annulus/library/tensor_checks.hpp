// Compares tensors with their plan before anything is computed.
#pragma once

#include <vector>

#include "annulus/library/made_plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus::library {

/// A tensor of a pass, and what the plan expects of it.
struct Argument {
  const char* name;
  const Tensor& tensor;
  std::array<Index, 4> extents;
  DType type;
  bool is_written = false;
};

/// Throws Error(usage): "<pass>: k is (1, 4096, 3, 64), <plan> wants (1, 4096, 2, 64)"; `plan` is a name for the plan.
/// Errors are missing data, other extents, another type, and unaligned numbers. A written tensor must also not have a
/// stride of 0, because its elements would overlap, and must not begin where another argument begins.
void check(const char* pass, const std::string& plan, const std::vector<Argument>& arguments);

}  // namespace annulus::library
