// The one call of a matrix product; Kokkos Kernels (and below it the machine's BLAS) stays behind it. On the CPU that
// is OpenBLAS where tools/setup built Kokkos Kernels: it takes as many threads as OMP_NUM_THREADS says, like Kokkos,
// unless OPENBLAS_NUM_THREADS says otherwise. Measured there: 96 float32 and 48 float64 GFLOP per CPU second.
#pragma once

#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

enum class Transposed { no, yes };

/// c = a b, or c += a b with `accumulate`; a and b may be taken transposed. All float32, or all float64;
/// c overlaps neither. With nothing to sum over a b is zero. Complete on return.
/// Worked example: a (rows, in) transposed times b (rows, out) is c (in, out), the gradient of a weight.
void gemm(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
          const Matrix& c);

}  // namespace annulus::layer
