// Attention by its definition, in float64: what results are held against. Slow: every row looks at all keys.
#pragma once

#include <vector>

#include "annulus/library/passes.hpp"
#include "annulus/library/plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus {

/// Rows of the result of a plan's whole problem, in host memory:
///   q (B, Sq, H, D), k (B, S, Hkv, D), v (B, S, Hkv, Dv)  on the host, of any layout; rows count from the first of q
///   out (B, rows, H, Dv), lse (B, rows, H)    written, contiguous; lse = -inf and out = 0 where a row sees no key
///   sink (1, 1, H, 1)                        on the host, where Pattern::sink says that there is one
/// It shares nothing with the kernels but the plan's settings. Throws Error(usage) where a tensor is not the plan's or
/// there is no such row. What `progress` throws ends it.
void reference(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Index>& rows,
               double* out, double* lse, const Progress& progress = {}, const Tensor& sink = {});

}  // namespace annulus
