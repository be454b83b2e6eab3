// Work lists with the tensors of a backward pass, its definition in double, and runs of the host back end.
#pragma once

#include <algorithm>
#include <string>

#include "kernels/host_case.hpp"

namespace annulus::test {

/// The three gradients: dq (B, rows, H, D), dk and dv (B, key rows, Hkv, D).
struct Gradients {
  std::vector<double> dq, dk, dv;
};

/// A forward case with gradients of out and lse given. The naive answers and the runs take the items' pairs as they
/// are, in all three masks.
struct BackwardCase : HostCase {
  std::vector<double> dout = {}, dlse = {};  ///< dlse (B, rows, H), or empty: none

  void fill_all(double amplitude = 1) {
    fill(amplitude);
    dout = random_values(core::TensorId::dout, query_numbers(), type);
    dlse = random_values(core::TensorId::dout, query_numbers() / shape.head_dim, type, 7);
  }
};

/// A case of one head where rows 0 ... rows - 1 see keys 0 ... keys - 1 by `mask`.
inline BackwardCase backward_case(Index rows, Index keys, Index head_dim, core::Mask mask) {
  BackwardCase test{plain_case(rows, keys, head_dim, false)};
  test.calls[0].items[0].mask = mask;
  return test;
}

inline bool sees(core::Mask mask, Index query_t, Index key_t) {
  return mask == core::Mask::all || (mask == core::Mask::upto) == (key_t <= query_t);
}

/// Calls meet(row, key) for every (batch, query row, head) and key vector the lists let meet, as indices of rows of D.
template <class Meet>
void for_each_pair(const HostCase& test, const Meet& meet) {
  for (const core::WorkList& list : test.calls) {
    for (const core::WorkItem& item : list.items) {
      for (const CombRow query : comb_rows(list, item.query)) {
        for (const CombRow key : comb_rows(list, item.key)) {
          if (!sees(item.mask, query.t, key.t)) continue;
          for (Index b = 0; b < test.shape.batch; ++b)
            for (Index h = 0; h < item.head_count; ++h)
              meet(std::size_t((b * test.query_rows + query.row) * test.shape.heads + item.head_first +
                               h * item.head_stride),
                   std::size_t((b * test.key_rows + key.row) * test.shape.kv_heads + item.kv_head));
        }
      }
    }
  }
}

inline double dot(const std::vector<double>& a, std::size_t i, const std::vector<double>& b, std::size_t j, Index D) {
  double sum = 0;
  for (std::size_t d = 0; d < std::size_t(D); ++d) sum += a[i * std::size_t(D) + d] * b[j * std::size_t(D) + d];
  return sum;
}

/// out and lse by the definition. Scores must be moderate: no maximum is taken off.
inline kernels::ReferenceResult naive_forward(const HostCase& test) {
  const Index D = test.shape.head_dim;
  std::vector<double> sums(std::size_t(test.query_numbers() / D), 0.0);
  kernels::ReferenceResult answer{std::vector<double>(std::size_t(test.query_numbers()), 0.0), {}};
  for_each_pair(test, [&](std::size_t row, std::size_t key) {
    const double weight = std::exp(test.scale() * dot(test.q, row, test.k, key, D));
    sums[row] += weight;
    for (std::size_t d = 0; d < std::size_t(D); ++d)
      answer.out[row * std::size_t(D) + d] += weight * test.v[key * std::size_t(D) + d];
  });
  for (std::size_t row = 0; row < sums.size(); ++row) {
    answer.lse.push_back(std::log(sums[row]));  // -inf where no key was seen
    for (std::size_t d = 0; sums[row] > 0 && d < std::size_t(D); ++d)
      answer.out[row * std::size_t(D) + d] *= test.output_scale / sums[row];
  }
  return answer;
}

/// The gradients by their definition, with delta from `out` as it is given.
inline Gradients naive_gradients(const BackwardCase& test, const kernels::ReferenceResult& forward) {
  const std::size_t D = std::size_t(test.shape.head_dim);
  Gradients g{std::vector<double>(test.q.size(), 0.0), std::vector<double>(test.k.size(), 0.0),
              std::vector<double>(test.v.size(), 0.0)};
  for_each_pair(test, [&](std::size_t row, std::size_t key) {
    const double p = std::exp(test.scale() * dot(test.q, row, test.k, key, Index(D)) - forward.lse[row]);
    const double delta = dot(test.dout, row, forward.out, row, Index(D)) - (test.dlse.empty() ? 0 : test.dlse[row]);
    const double ds = p * (test.output_scale * dot(test.dout, row, test.v, key, Index(D)) - delta);
    for (std::size_t d = 0; d < D; ++d) {
      g.dq[row * D + d] += test.scale() * ds * test.k[key * D + d];
      g.dk[key * D + d] += test.scale() * ds * test.q[row * D + d];
      g.dv[key * D + d] += test.output_scale * p * test.dout[row * D + d];
    }
  });
  return g;
}

/// What the forward pass leaves for the backward pass: out in the storage type, lse exact.
inline kernels::ReferenceResult stored_forward(const BackwardCase& test) {
  kernels::ReferenceResult forward = naive_forward(test);
  forward.out = rounded(forward.out, test.type);
  return forward;
}

/// The host back end's gradients, in `result` type; the accumulators themselves where `finished` is false.
struct BackwardRun {
  InstructionSet set = kernels::host::best_instruction_set();
  bool finished = true;
  DType result = DType::float64;  ///< of dq, dk, dv; only with `finished`
  std::function<void()> poll = {};
};
inline Gradients host_gradients(const BackwardCase& test, const kernels::ReferenceResult& forward,
                                const BackwardRun& run = {}) {
  namespace host = kernels::host;
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim, rows = test.query_rows, keys = test.key_rows;
  const DType wide = test.precision == core::Precision::float64 ? DType::float64 : DType::float32;
  const auto query_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, rows, shape.heads, D);
  };
  const auto key_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, keys, shape.kv_heads, D);
  };
  const auto row_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, rows, shape.heads, 1);
  };
  const DeviceTensor q = query_like(test.q, test.type), k = key_like(test.k, test.type),
                     v = key_like(test.v, test.type), dout = query_like(test.dout, test.type),
                     out = query_like(forward.out, test.type), lse = row_like(forward.lse, core::lse_type(test.type)),
                     dlse = row_like(test.dlse, test.type),
                     delta = row_like(std::vector<double>(forward.lse.size(), 1234.0), wide);
  const DeviceTensor dq = query_like(std::vector<double>(test.q.size(), 0.0), wide),
                     dk = key_like(std::vector<double>(test.k.size(), 0.0), wide),
                     dv = key_like(std::vector<double>(test.v.size(), 0.0), wide);
  const core::TensorView none;
  host::host_backward_delta(shape, rows, out.view, dout.view, test.dlse.empty() ? none : dlse.view, delta.view,
                            run.set);
  for (const core::WorkList& list : test.calls) {
    host::host_attend_backward(
        list, shape, rows, test.precision,
        {q.view, k.view, v.view, dout.view, lse.view, delta.view, test.scale(), test.output_scale},
        {dq.view, dk.view, dv.view}, run.poll, run.set);
  }
  const auto result = [&](kernels::Gradient which, const DeviceTensor& accumulator, Index of_rows, Index heads) {
    const Index numbers = shape.batch * of_rows * heads * D;
    if (!run.finished) return from_device(accumulator.buffer, numbers, wide);
    const DeviceTensor to = to_device(std::vector<double>(std::size_t(numbers), 1234.0), run.result, of_rows, heads, D);
    host::host_finish_gradient(which, shape.batch, of_rows, heads, D, accumulator.view, to.view, test.scale(),
                               test.output_scale, run.set);
    return from_device(to.buffer, numbers, run.result);
  };
  return {result(kernels::Gradient::dq, dq, rows, shape.heads), result(kernels::Gradient::dk, dk, keys, shape.kv_heads),
          result(kernels::Gradient::dv, dv, keys, shape.kv_heads)};
}

}  // namespace annulus::test
