// The products of a layer: y = x w + bias and its three gradients, in row chunks, for every storage type; and the one
// call of a matrix product. Below it is Kokkos Kernels, and below that the machine's BLAS. On the CPU that is OpenBLAS
// where tools/setup built Kokkos Kernels: it takes as many threads as OMP_NUM_THREADS says, like Kokkos, unless
// OPENBLAS_NUM_THREADS says otherwise. Measured there: 96 float32 and 48 float64 GFLOP per CPU second.
#pragma once

#include <functional>

#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

enum class Transposed { no, yes };

/// c = a b, or c += a b with `accumulate`; a and b may be taken transposed. All float32, or all float64;
/// c overlaps neither. With nothing to sum over a b is zero. Complete on return.
/// Worked example: a (rows, in) transposed times b (rows, out) is c (in, out), the gradient of a weight.
void gemm(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
          const Matrix& c);

/// What the products of a pass came to.
struct ProductMetrics {
  double seconds = 0;      ///< wall time
  double cpu_seconds = 0;  ///< of all threads
  double flops = 0;
};

/// Operands may be stored in any type, each in its own; sums are made in one, and rounded once where the
/// result is stored in another. Operands of other types are converted chunk by chunk (weights as a whole), so that
/// 16-bit storage costs a chunk of memory and a copy of the weight in use.
class Products {
 public:
  /// Large enough for a product to run at full speed and for conversions to stay in the cache's reach, small enough for
  /// messages to be looked after every some milliseconds (1,024 x 1,024 weights: 45 ms at 96 GFLOP/s).
  static constexpr Index chunk_rows = 2048;

  /// `arithmetic` is float32 or float64. `poll` (may be empty) is called between chunks: messages move only inside MPI
  /// calls.
  explicit Products(core::DType arithmetic, std::function<void()> poll = {});

  /// y = x w + bias.  x (rows, in), w (in, out), bias (1, out) or empty, y (rows, out)
  void forward(const Matrix& x, const Matrix& w, const Matrix& bias, const Matrix& y);
  /// dx = dy w^T, or dx += with `accumulate`.  dy (rows, out), dx (rows, in), of the
  /// arithmetic type when it accumulates
  void input_gradient(const Matrix& dy, const Matrix& w, const Matrix& dx, bool accumulate);
  /// dw = x^T dy.  x (rows, in), dy (rows, out), dw (in, out) of the arithmetic type
  void weight_gradient(const Matrix& x, const Matrix& dy, const Matrix& dw);
  /// db = sum of dy's rows.  dy (rows, out), db (1, out) of the arithmetic type
  void bias_gradient(const Matrix& dy, const Matrix& db);

  core::DType arithmetic() const { return type_; }
  const ProductMetrics& metrics() const { return metrics_; }

 private:
  /// Room for the numbers of a chunk in another type.
  struct Room {
    core::Buffer buffer;
    Matrix of(const Matrix& like, core::DType type);
  };
  /// The matrix itself where it is stored in the arithmetic type, else a copy in `room`.
  Matrix converted(const Matrix& matrix, Room& room) const;
  void multiply(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
                const Matrix& c);
  /// Calls work(interval) for chunk after chunk of `rows` rows, and polls after each.
  template <class Work>
  void in_chunks(Index rows, Work&& work);

  core::DType type_;
  std::function<void()> poll_;
  ProductMetrics metrics_;
  Room first_, second_, weight_;
};

}  // namespace annulus::layer
