// The attention layer as plain float64 loops, with which the program's layer is compared. It shares no code with that
// layer, and calls the reference attention.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "support/reference_attention.hpp"

namespace annulus::test {

using core::Index;
using Numbers = std::vector<double>;

/// c (rows, columns) = a (rows, inner) b (inner, columns).
inline Numbers product(const Numbers& a, const Numbers& b, Index rows, Index inner, Index columns) {
  Numbers c(std::size_t(rows * columns), 0.0);
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < inner; ++k) {
      for (Index j = 0; j < columns; ++j) {
        c[std::size_t(i * columns + j)] += a[std::size_t(i * inner + k)] * b[std::size_t(k * columns + j)];
      }
    }
  }
  return c;
}

inline Numbers transposed(const Numbers& a, Index rows, Index columns) {
  Numbers t(a.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) t[std::size_t(j * rows + i)] = a[std::size_t(i * columns + j)];
  }
  return t;
}

/// (batch, sequence, heads, D) with the pairs (d, d + D/2) of row x rotated by sign * x * base^(-2 d / D) radians.
inline Numbers turned(Numbers values, const core::Shape& shape, Index heads, double base, double sign) {
  const Index half = shape.head_dim / 2;
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index x = 0; x < shape.sequence; ++x) {
      for (Index h = 0; h < heads; ++h) {
        double* vector = &values[std::size_t(((b * shape.sequence + x) * heads + h) * shape.head_dim)];
        for (Index d = 0; d < half; ++d) {
          const double angle = sign * double(x) * std::pow(base, -2.0 * double(d) / double(shape.head_dim));
          const double first = vector[d], second = vector[d + half];
          vector[d] = first * std::cos(angle) - second * std::sin(angle);
          vector[d + half] = first * std::sin(angle) + second * std::cos(angle);
        }
      }
    }
  }
  return values;
}

/// x (B S, E) and the eight weights, in the order wq wk wv wo bq bk bv bo; an empty bias means no bias.
struct ReferenceLayer {
  core::Shape shape;
  Index width = 1;
  kernels::ReferencePattern pattern;
  std::optional<double> rope;
  Numbers x;
  std::array<Numbers, 8> weights;

  struct Gradients {
    Numbers dx;
    std::array<Numbers, 8> weights;
  };

  Index rows() const { return shape.batch * shape.sequence; }
  /// Columns of q (0), k (1), v (2).
  Index columns(int i) const { return (i == 0 ? shape.heads : shape.kv_heads) * shape.head_dim; }

  Numbers linear(const Numbers& in, int i, Index inner, Index out) const {
    Numbers y = product(in, weights[std::size_t(i)], rows(), inner, out);
    const Numbers& bias = weights[std::size_t(i) + 4];
    for (std::size_t n = 0; n < y.size() && !bias.empty(); ++n) y[n] += bias[n % std::size_t(out)];
    return y;
  }

  /// q, k, v as the attention sees them.
  std::array<Numbers, 3> projections() const {
    std::array<Numbers, 3> qkv;
    for (int i = 0; i < 3; ++i) {
      qkv[std::size_t(i)] = linear(x, i, width, columns(i));
      if (rope && i < 2)
        qkv[std::size_t(i)] = turned(qkv[std::size_t(i)], shape, columns(i) / shape.head_dim, *rope, 1);
    }
    return qkv;
  }

  Numbers forward() const {
    const auto qkv = projections();
    return linear(kernels::reference_forward(shape, pattern, qkv[0], qkv[1], qkv[2]).out, 3, columns(0), width);
  }

  Gradients backward(const Numbers& dy) const {
    Gradients gradients;
    const auto qkv = projections();
    const Numbers out = kernels::reference_forward(shape, pattern, qkv[0], qkv[1], qkv[2]).out;
    take(gradients, 3, out, columns(0), dy, width);
    const Numbers dout = product(dy, transposed(weights[3], columns(0), width), rows(), width, columns(0));
    const auto inner = kernels::reference_backward(shape, pattern, qkv[0], qkv[1], qkv[2], dout);
    std::array<Numbers, 3> d{inner.dq, inner.dk, inner.dv};
    gradients.dx.assign(x.size(), 0.0);
    for (int i = 0; i < 3; ++i) {
      Numbers& one = d[std::size_t(i)];
      if (rope && i < 2) one = turned(one, shape, columns(i) / shape.head_dim, *rope, -1);
      take(gradients, i, x, width, one, columns(i));
      const Numbers part =
          product(one, transposed(weights[std::size_t(i)], width, columns(i)), rows(), columns(i), width);
      for (std::size_t n = 0; n < part.size(); ++n) gradients.dx[n] += part[n];
    }
    return gradients;
  }

 private:
  /// Gradients of weight i and its bias, from the input of the product and the gradient of its output.
  void take(Gradients& gradients, int i, const Numbers& in, Index inner, const Numbers& dout, Index out) const {
    gradients.weights[std::size_t(i)] = product(transposed(in, rows(), inner), dout, inner, rows(), out);
    if (weights[std::size_t(i) + 4].empty()) return;
    gradients.weights[std::size_t(i) + 4] = product(Numbers(std::size_t(rows()), 1.0), dout, 1, rows(), out);
  }
};

}  // namespace annulus::test
