// Results of whole small problems by the definition (kernels/reference.hpp), forward and backward, in float64.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "annulus/kernels/reference.hpp"

namespace annulus::kernels {

/// out (B, S, H, Dv) and lse (B, S, H).
struct ReferenceResult {
  std::vector<double> out;
  std::vector<double> lse;
};

/// Forward attention of a small problem: O(B H S^2 D) work. q is (B, S, H, D), k (B, S, Hkv, D)
/// and v (B, S, Hkv, Dv).
inline ReferenceResult reference_forward(const core::Shape& shape, const ReferencePattern& pattern,
                                         const std::vector<double>& q, const std::vector<double>& k,
                                         const std::vector<double>& v) {
  const core::Index D = shape.head_dim, Dv = shape.dim_of_values();
  ReferenceResult result;
  result.lse.resize(q.size() / D);
  result.out.resize(result.lse.size() * std::size_t(Dv));
  for (core::Index b = 0; b < shape.batch; ++b) {
    for (core::Index x = 0; x < shape.sequence; ++x) {
      for (core::Index h = 0; h < shape.heads; ++h) {
        const core::Index at = (b * shape.sequence + x) * shape.heads + h;
        ReferenceRow row(pattern, shape, h, x, std::span(q).subspan(at * D, D));
        const core::Interval keys = key_range(pattern, shape.sequence, shape.heads, h, x);
        for (core::Index p = keys.begin; p < keys.end; ++p) {
          const core::Index key = (b * shape.sequence + p) * shape.kv_heads + h / shape.group();
          row.add(p, std::span(k).subspan(key * D, D), std::span(v).subspan(key * Dv, Dv));
        }
        row.finish(std::span(result.out).subspan(at * Dv, Dv), result.lse[at]);
      }
    }
  }
  return result;
}

/// dq (B, S, H, D), dk (B, S, Hkv, D), dv (B, S, Hkv, Dv); dsink (H), zeros if the pattern has no sink logits.
struct ReferenceGradients {
  std::vector<double> dq;
  std::vector<double> dk;
  std::vector<double> dv;
  std::vector<double> dsink = {};
};

namespace detail {
using core::Index;
using Vector = std::span<const double>;

inline double dot(Vector a, Vector b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

/// to += factor * x
inline void add(std::vector<double>& to, Index first, double factor, Vector x) {
  for (std::size_t d = 0; d < x.size(); ++d) to[std::size_t(first) + d] += factor * x[d];
}
}  // namespace detail

/// Gradients of sum(dout * out) + sum(dlse * lse) in the arithmetic of reference_forward(), O(B H S^2 D) work. dout is
/// (B, S, H, Dv), dlse is (B, S, H) or empty, which means zeros. A row that sees no key gives and gets zeros, whatever
/// its dout and dlse are.
/// The formulas, for one query row x and key row p after another; out = g sum_p P v_p, where g is 1, or with
/// group_scale 1 / the number of pairs (segment, dilation):
///   delta = dout.out - dlse       dS = P (g dout.v - delta), times 1 - tanh^2 where scores have a cap
///   dq = scale sum_p dS k         dk = scale sum_x dS q         dv = g sum_x P dout
/// A sink is a key of value 0, and its score is its parameter: dsink = sum_x dS = -sum_x P delta.
inline ReferenceGradients reference_backward(const core::Shape& shape, const ReferencePattern& pattern,
                                             const std::vector<double>& q, const std::vector<double>& k,
                                             const std::vector<double>& v, const std::vector<double>& dout,
                                             const std::vector<double>& dlse = {}) {
  using namespace detail;
  const Index S = shape.sequence, H = shape.heads, D = shape.head_dim, Dv = shape.dim_of_values();
  const double output_scale = pattern.group_scale ? 1.0 / double(pattern.pairs.size()) : 1.0;
  const ReferenceResult forward = reference_forward(shape, pattern, q, k, v);
  const auto vector = [D](const std::vector<double>& tensor, Index first) { return Vector(tensor).subspan(first, D); };
  const auto value = [Dv](const std::vector<double>& tensor, Index row) {
    return Vector(tensor).subspan(row * Dv, Dv);
  };

  ReferenceGradients gradients;
  gradients.dq.resize(q.size());
  gradients.dk.resize(k.size());
  gradients.dv.resize(v.size());
  gradients.dsink.resize(std::size_t(H));
  for (Index row = 0; row < shape.batch * S * H; ++row) {  // (batch, row, head) in memory order
    const Index h = row % H, x = row / H % S, b = row / H / S;
    const Index at = row * D;
    const double lse = forward.lse[row];
    const double delta = dot(value(dout, row), value(forward.out, row)) - (dlse.empty() ? 0.0 : dlse[row]);
    if (!pattern.sink.empty() && !std::isinf(lse)) gradients.dsink[h] -= std::exp(pattern.sink[h] - lse) * delta;
    const core::Interval document = document_of(pattern, S, x);
    const core::Interval keys = key_range(pattern, S, H, h, x);
    for (Index p = keys.begin; p < keys.end; ++p) {
      const Index times = multiplicity(pattern, H, h, x, p, document);
      if (times == 0) continue;
      const Index key = (b * S + p) * shape.kv_heads + h / shape.group(), key_at = key * D;
      const ReferenceScore score =
          score_of(pattern, h, x, p, document, pattern.scale * dot(vector(q, at), vector(k, key_at)));
      const double P = double(times) * std::exp(score.value - lse);
      const double dS = P * (output_scale * dot(value(dout, row), value(v, key)) - delta) * score.slope;
      add(gradients.dq, at, pattern.scale * dS, vector(k, key_at));
      add(gradients.dk, key_at, pattern.scale * dS, vector(q, at));
      add(gradients.dv, key * Dv, output_scale * P, value(dout, row));
    }
  }
  return gradients;
}

}  // namespace annulus::kernels
