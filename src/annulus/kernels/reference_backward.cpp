// The gradients by their definition, pair of rows after pair of rows. With g = 1 / number of pairs where group_scale
// asks for it, else 1, and out = g sum_p P v_p:
//   delta = dout.out - dlse       dS = P (g dout.v - delta)
//   dq = scale sum_p dS k         dk = scale sum_x dS q         dv = g sum_x P dout
#include <cmath>

#include "annulus/kernels/reference.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Vector = std::span<const double>;

double dot(Vector a, Vector b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

/// to += factor * x
void add(std::vector<double>& to, Index first, double factor, Vector x) {
  for (std::size_t d = 0; d < x.size(); ++d) to[std::size_t(first) + d] += factor * x[d];
}

}  // namespace

ReferenceGradients reference_backward(const core::Shape& shape, const ReferencePattern& pattern,
                                      const std::vector<double>& q, const std::vector<double>& k,
                                      const std::vector<double>& v, const std::vector<double>& dout,
                                      const std::vector<double>& dlse) {
  const Index S = shape.sequence, H = shape.heads, D = shape.head_dim;
  const double output_scale = pattern.group_scale ? 1.0 / double(pattern.pairs.size()) : 1.0;
  const ReferenceResult forward = reference_forward(shape, pattern, q, k, v);
  const auto vector = [D](const std::vector<double>& tensor, Index first) { return Vector(tensor).subspan(first, D); };

  ReferenceGradients gradients;
  gradients.dq.resize(q.size());
  gradients.dk.resize(k.size());
  gradients.dv.resize(v.size());
  for (Index row = 0; row < shape.batch * S * H; ++row) {  // (batch, row, head) in memory order
    const Index h = row % H, x = row / H % S, b = row / H / S;
    const Index at = row * D;
    const double lse = forward.lse[row];
    const double delta = dot(vector(dout, at), vector(forward.out, at)) - (dlse.empty() ? 0.0 : dlse[row]);
    const core::Interval document = document_of(pattern, S, x);
    const core::Interval keys = key_range(pattern, S, H, h, x);
    for (Index p = keys.begin; p < keys.end; ++p) {
      const Index times = multiplicity(pattern, H, h, x, p, document);
      if (times == 0) continue;
      const Index key_at = ((b * S + p) * shape.kv_heads + h / shape.group()) * D;
      const double P = double(times) * std::exp(pattern.scale * dot(vector(q, at), vector(k, key_at)) - lse);
      const double dS = P * (output_scale * dot(vector(dout, at), vector(v, key_at)) - delta);
      add(gradients.dq, at, pattern.scale * dS, vector(k, key_at));
      add(gradients.dk, key_at, pattern.scale * dS, vector(q, at));
      add(gradients.dv, key_at, output_scale * P, vector(dout, at));
    }
  }
  return gradients;
}

}  // namespace annulus::kernels
