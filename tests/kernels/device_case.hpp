// A work list with its tensors, the naive answer in double, and a run of the device back end on a chosen space.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/team_attend.hpp"
#include "annulus/kernels/device/team_finish.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {

/// Several calls' lists over one set of query rows and one block of keys.
struct DeviceCase {
  core::Shape shape;     ///< shape.sequence is not used
  Index query_rows = 0;  ///< stored rows of q, out and lse
  Index key_rows = 0;    ///< stored rows of k and v
  DType type = DType::float32;
  core::Precision precision = core::Precision::float32;
  double amplitude = 1;  ///< of q
  double output_scale = 1;
  std::vector<core::WorkList> calls;

  double scale() const { return 1 / std::sqrt(double(shape.head_dim)); }
  std::vector<double> q() const {
    const Index count = shape.batch * query_rows * shape.heads * shape.head_dim;
    return random_values(core::TensorId::q, count, type, 1, amplitude);
  }
  std::vector<double> keys(core::TensorId tensor) const {
    return random_values(tensor, shape.batch * key_rows * shape.kv_heads * shape.head_dim, type);
  }
};

/// Every (comb index, stored row) of a map, in order.
struct MapRow {
  Index t;
  Index row;
};
inline std::vector<MapRow> rows_of(const core::WorkList& list, const core::RowMap& map) {
  std::vector<MapRow> rows;
  for (Index r = map.first_run; r < map.first_run + map.runs; ++r) {
    const core::Run& run = list.runs[std::size_t(r)];
    for (Index i = 0; i < run.count; ++i) rows.push_back({run.t + i, run.row + i * run.stride});
  }
  return rows;
}

/// Scores first, then the softmax of each (batch, row, head) over all the keys its items ever showed it.
inline kernels::ReferenceResult naive_answer(const DeviceCase& test) {
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim;
  const std::vector<double> q = test.q(), k = test.keys(core::TensorId::k), v = test.keys(core::TensorId::v);
  struct Seen {
    double score;
    Index at;  // of the key's D numbers
  };
  std::vector<std::vector<Seen>> seen(std::size_t(shape.batch * test.query_rows * shape.heads));
  const auto see = [&](Index b, Index row, Index head, Index key_row, Index kv_head) {
    const Index state = (b * test.query_rows + row) * shape.heads + head;
    const Index at = ((b * test.key_rows + key_row) * shape.kv_heads + kv_head) * D;
    double score = 0;
    for (Index d = 0; d < D; ++d) score += q[std::size_t(state * D + d)] * k[std::size_t(at + d)];
    seen[std::size_t(state)].push_back({score * test.scale(), at});
  };
  for (const core::WorkList& list : test.calls) {
    for (const core::WorkItem& item : list.items) {
      for (const MapRow query : rows_of(list, item.query)) {
        for (const MapRow key : rows_of(list, item.key)) {
          if (item.mask == core::Mask::upto && key.t > query.t) continue;
          if (item.mask == core::Mask::after && key.t <= query.t) continue;
          for (Index b = 0; b < shape.batch; ++b) {
            for (Index h = 0; h < item.head_count; ++h) {
              see(b, query.row, item.head_first + h * item.head_stride, key.row, item.kv_head);
            }
          }
        }
      }
    }
  }
  kernels::ReferenceResult answer;
  for (const auto& keys : seen) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const Seen& key : keys) largest = std::max(largest, key.score);
    std::vector<double> out(std::size_t(D), 0.0);
    for (const Seen& key : keys) {
      const double weight = std::exp(key.score - largest);
      sum += weight;
      for (Index d = 0; d < D; ++d) out[std::size_t(d)] += weight * v[std::size_t(key.at + d)];
    }
    for (const double x : out) answer.out.push_back(keys.empty() ? 0.0 : test.output_scale * x / sum);
    answer.lse.push_back(keys.empty() ? largest : largest + std::log(sum));
  }
  return answer;
}

/// The device back end's answer on ExecSpace with the given numbers and team size.
template <class ExecSpace, class Tuning>
kernels::ReferenceResult device_answer(const DeviceCase& test, int team_size, const std::function<void()>& poll = {}) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q(), test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k =
      to_device(test.keys(core::TensorId::k), test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v =
      to_device(test.keys(core::TensorId::v), test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision, kernels::reproducible_lift);
  poison(state.acc);
  for (const core::WorkList& list : test.calls) {
    kernels::device::team_attend<ExecSpace, Tuning>(list, {q.view, k.view, v.view, test.scale()}, state, poll,
                                                    team_size);
  }
  // Filled with a number that is no result, so that an element nobody writes shows.
  const Index rows = shape.batch * test.query_rows * shape.heads;
  const DType lse_type = core::lse_type(test.type);
  const std::vector<double> unwritten(std::size_t(rows * shape.head_dim), 1234.0);
  const DeviceTensor out = to_device(unwritten, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(rows), 1234.0), lse_type, test.query_rows, shape.heads, 1);
  kernels::device::team_finish<ExecSpace>(state, out.view, lse.view, test.output_scale, team_size);
  return {from_device(out.buffer, rows * shape.head_dim, test.type), from_device(lse.buffer, rows, lse_type)};
}

}  // namespace annulus::test
