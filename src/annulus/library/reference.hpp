// Attention by its definition, in float64, to compare results with. Slow: every row looks at all keys.
#pragma once

#include <vector>

#include "annulus/library/passes.hpp"
#include "annulus/library/plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus {

/// Rows of the result of a plan's whole problem, in host memory:
///   q (B, Sq, H, D), k (B, S, Hkv, D), v (B, S, Hkv, Dv)  on the host, any layout; `rows` are indices of rows of q
///   out (B, rows, H, Dv), lse (B, rows, H)    written, contiguous; lse = -inf and out = 0 where a row sees no key
///   sink (1, 1, H, 1)                        on the host, only if Pattern::sink is set
/// It shares no code with the kernels, only the plan's settings. Throws Error(usage) if a tensor does not fit the plan
/// or there is no such row. An exception from `progress` ends it.
void reference(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Index>& rows,
               double* out, double* lse, const Progress& progress = {}, const Tensor& sink = {});

}  // namespace annulus
