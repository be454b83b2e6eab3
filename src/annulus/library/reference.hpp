// Attention by its definition, in float64, to compare results with. This is slow, because for each row every key is
// visited from the first to the last that the row sees.
#pragma once

#include <vector>

#include "annulus/library/passes.hpp"
#include "annulus/library/plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus {

/// Computes rows of the result of a plan's whole problem, in host memory (Sq: rows of q):
///   q (B, Sq, H, D), k (B, S, Hkv, D), v (B, S, Hkv, Dv)  on the host, any layout; `rows` are indices of rows of q
///   out (B, rows, H, Dv), lse (B, rows, H)    written, contiguous; lse = -inf and out = 0 where a row sees no key
///   sink (1, 1, H, 1)                        on the host, only if Pattern::sink is set
/// The computation shares no code with the kernels, only the plan's settings. Throws Error(usage) if a tensor does not
/// fit the plan, or if a row of `rows` does not exist. An exception from `progress` ends the computation.
void reference(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Index>& rows,
               double* out, double* lse, const Progress& progress = {}, const Tensor& sink = {});

}  // namespace annulus
