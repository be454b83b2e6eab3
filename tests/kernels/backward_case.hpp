// Gradients of a work list with its tensors: by the definition in double, and by the device teams on a chosen space.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "annulus/kernels/device/team_backward.hpp"
#include "annulus/kernels/device/team_gradient.hpp"
#include "device_case.hpp"

namespace annulus::test {

/// A DeviceCase whose lists keep the promise of attend_backward(): no (key row, key/value head) twice in a list either.
struct BackwardCase : DeviceCase {
  std::vector<double> dout() const { return random_values(core::TensorId::dout, states() * shape.head_dim, type); }
  std::vector<double> dlse() const { return random_values(core::TensorId::dlse, states(), type); }
  Index states() const { return shape.batch * query_rows * shape.heads; }
  Index key_numbers() const { return shape.batch * key_rows * shape.kv_heads * shape.head_dim; }
  DType sums() const { return precision == core::Precision::float64 ? DType::float64 : DType::float32; }
};

/// What the backward kernels need of the forward, and the gradients.
struct BackwardAnswer {
  std::vector<double> lse;
  std::vector<double> delta;
  kernels::ReferenceGradients gradients;
};

inline bool sees(core::Mask mask, Index query_t, Index key_t) {
  return mask == core::Mask::all || (mask == core::Mask::upto ? key_t <= query_t : key_t > query_t);
}

/// All (query, key) pairs of all lists, then the formulas.
inline BackwardAnswer naive_gradients(const BackwardCase& test) {
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim;
  const auto q = test.q(), k = test.keys(core::TensorId::k), v = test.keys(core::TensorId::v), dout = test.dout(),
             dlse = test.dlse();
  struct Pair {
    Index query;  // number of (batch, row, head)
    Index key;    // number of (batch, row, kv head)
    double score;
  };
  const auto dot = [D](const std::vector<double>& a, Index i, const std::vector<double>& b, Index j) {
    double sum = 0;
    for (Index d = 0; d < D; ++d) sum += a[std::size_t(i * D + d)] * b[std::size_t(j * D + d)];
    return sum;
  };
  std::vector<Pair> pairs;
  for (const core::WorkList& list : test.calls) {
    for (const core::WorkItem& item : list.items) {
      for (const MapRow query : rows_of(list, item.query)) {
        for (const MapRow key : rows_of(list, item.key)) {
          if (!sees(item.mask, query.t, key.t)) continue;
          for (Index b = 0; b < shape.batch; ++b) {
            for (Index h = 0; h < item.head_count; ++h) {
              const Index head = item.head_first + h * item.head_stride;
              const Index i = (b * test.query_rows + query.row) * shape.heads + head;
              const Index j = (b * test.key_rows + key.row) * shape.kv_heads + item.kv_head;
              pairs.push_back({i, j, test.scale() * dot(q, i, k, j)});
            }
          }
        }
      }
    }
  }
  const std::size_t states = std::size_t(test.states());
  std::vector<double> largest(states, -std::numeric_limits<double>::infinity()), sum(states, 0.0);
  for (const Pair& pair : pairs) largest[pair.query] = std::max(largest[pair.query], pair.score);
  for (const Pair& pair : pairs) sum[pair.query] += std::exp(pair.score - largest[pair.query]);
  BackwardAnswer answer;
  for (std::size_t i = 0; i < states; ++i) {
    answer.lse.push_back(sum[i] > 0 ? largest[i] + std::log(sum[i]) : largest[i]);
    answer.delta.push_back(-dlse[i]);
  }
  const auto weight = [&](const Pair& pair) { return std::exp(pair.score - answer.lse[pair.query]); };
  const auto dp = [&](const Pair& pair) { return test.output_scale * dot(dout, pair.query, v, pair.key); };
  for (const Pair& pair : pairs) answer.delta[pair.query] += weight(pair) * dp(pair);  // dout.out
  answer.gradients.dq.resize(q.size());
  answer.gradients.dk.resize(k.size());
  answer.gradients.dv.resize(v.size());
  for (const Pair& pair : pairs) {
    const double ds = test.scale() * weight(pair) * (dp(pair) - answer.delta[pair.query]);
    for (Index d = 0; d < D; ++d) {
      const std::size_t at_query = std::size_t(pair.query * D + d), at_key = std::size_t(pair.key * D + d);
      answer.gradients.dq[at_query] += ds * k[at_key];
      answer.gradients.dk[at_key] += ds * q[at_query];
      answer.gradients.dv[at_key] += test.output_scale * weight(pair) * dout[at_query];
    }
  }
  return answer;
}

/// The device teams' gradients in the accumulation type, from the lse and delta of `known`.
template <class ExecSpace, class Tuning>
kernels::ReferenceGradients device_gradients(const BackwardCase& test, const BackwardAnswer& known, int team_size,
                                             const std::function<void()>& poll = {}) {
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim;
  const auto queries = [&](const std::vector<double>& values, DType type, Index width) {
    return to_device(values, type, test.query_rows, shape.heads, width);
  };
  const auto keys = [&](const std::vector<double>& values, DType type) {
    return to_device(values, type, test.key_rows, shape.kv_heads, D);
  };
  const DeviceTensor q = queries(test.q(), test.type, D), dout = queries(test.dout(), test.type, D);
  const DeviceTensor k = keys(test.keys(core::TensorId::k), test.type),
                     v = keys(test.keys(core::TensorId::v), test.type);
  const DeviceTensor lse = queries(known.lse, core::lse_type(test.type), 1),
                     delta = queries(known.delta, test.sums(), 1);
  const std::vector<double> query_zeros(std::size_t(test.states() * D)), key_zeros(std::size_t(test.key_numbers()));
  const DeviceTensor dq = queries(query_zeros, test.sums(), D), dk = keys(key_zeros, test.sums()),
                     dv = keys(key_zeros, test.sums());
  const kernels::BackwardOperands operands{q.view,   k.view,     v.view,       dout.view,
                                           lse.view, delta.view, test.scale(), test.output_scale};
  for (const core::WorkList& list : test.calls) {
    kernels::device::team_backward<ExecSpace, Tuning>(list, shape, test.precision, operands,
                                                      {dq.view, dk.view, dv.view}, poll, team_size);
  }
  // Filled with a number that is no result, so that an element nobody writes shows.
  const auto finished = [&](const DeviceTensor& sums, Index rows, Index heads, double unit) {
    const Index count = shape.batch * rows * heads * D;
    const DeviceTensor to = to_device(std::vector<double>(std::size_t(count), 1234.0), test.sums(), rows, heads, D);
    kernels::device::team_gradient<ExecSpace>({shape.batch, rows, heads, heads, D}, rows, sums.view, to.view, unit,
                                              team_size);
    return from_device(to.buffer, count, test.sums());
  };
  return {finished(dq, test.query_rows, shape.heads, test.scale()),
          finished(dk, test.key_rows, shape.kv_heads, test.scale()),
          finished(dv, test.key_rows, shape.kv_heads, test.output_scale)};
}

}  // namespace annulus::test
