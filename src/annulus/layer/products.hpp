// Computes the products of a layer for every storage type: y = x w + bias, and the gradients dx, dw and db. Only gemm()
// calls a library: Kokkos Kernels, which call the machine's BLAS. On CPUs this BLAS is OpenBLAS, if tools/setup built
// Kokkos Kernels. OpenBLAS uses OMP_NUM_THREADS threads, as Kokkos does, unless OPENBLAS_NUM_THREADS is set. We
// measured 96 float32 and 48 float64 GFLOP per CPU second with OpenBLAS.
#pragma once

#include <functional>

#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

enum class Transposed { no, yes };

/// c = a b, or c += a b with `accumulate`; a and b may be transposed. All three are float32, or float64. c must not
/// overlap a or b. If the inner dimension is 0, a b is zero. Returns when c is complete.
/// Worked example: a (rows, in) transposed times b (rows, out) is c (in, out), the gradient of a weight.
void gemm(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
          const Matrix& c);

/// Time and operations of the products in one pass.
struct ProductMetrics {
  double seconds = 0;  ///< wall time
  double flops = 0;
};

/// Each operand may have any storage type. Sums use the arithmetic type, and a result of another type is rounded once.
/// Operands of other types are converted chunk by chunk, but weights as a whole. So tensors in 16 bits need additional
/// memory only for two converted chunks and a converted copy of the weight in use.
class Products {
 public:
  /// Rows of a chunk. They are enough for products at full speed, and so few that converted numbers stay in the cache,
  /// and that messages are polled every few tens of milliseconds (1,024 x 1,024 weights: 45 ms at 96 GFLOP/s).
  static constexpr Index chunk_rows = 2048;

  /// `arithmetic` is float32 or float64. `poll`, which may be empty, is called after each chunk, because messages move
  /// only inside MPI calls.
  explicit Products(core::DType arithmetic, std::function<void()> poll = {});

  /// y = x w + bias, with x (rows, in), w (in, out), bias (1, out) or empty, y (rows, out).
  void forward(const Matrix& x, const Matrix& w, const Matrix& bias, const Matrix& y);
  /// dx = dy w^T, or dx += dy w^T with `accumulate`; dy is (rows, out), dx (rows, in). dx must have the arithmetic type
  /// if it accumulates.
  void input_gradient(const Matrix& dy, const Matrix& w, const Matrix& dx, bool accumulate);
  /// dw = x^T dy, with x (rows, in), dy (rows, out), dw (in, out). dw must have the arithmetic type.
  void weight_gradient(const Matrix& x, const Matrix& dy, const Matrix& dw);
  /// db = sum of the rows of dy, with dy (rows, out), db (1, out). db must have the arithmetic type.
  void bias_gradient(const Matrix& dy, const Matrix& db);

  core::DType arithmetic() const { return type_; }
  const ProductMetrics& metrics() const { return metrics_; }

 private:
  /// A buffer for a converted copy of a chunk or a weight.
  struct Room {
    core::Buffer buffer;
    Matrix of(const Matrix& like, core::DType type);
  };
  /// The matrix itself if it has the arithmetic type, otherwise a converted copy in `room`.
  Matrix converted(const Matrix& matrix, Room& room) const;
  void multiply(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
                const Matrix& c);
  /// Calls work(interval) for one chunk of the `rows` rows after another, and calls poll_ after each chunk.
  template <class Work>
  void in_chunks(Index rows, Work&& work);

  core::DType type_;
  std::function<void()> poll_;
  ProductMetrics metrics_;
  Room first_, second_, weight_;
};

}  // namespace annulus::layer
