// Work lists with their tensors, the naive answer in double, and runs of the host back end.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "annulus/kernels/host/host_backend.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {

using kernels::host::InstructionSet;

/// Several calls' lists over one set of query rows and one block of keys. q (B, query_rows, H, D), k and v
/// (B, key_rows, Hkv, D), as doubles that `type` represents exactly.
struct HostCase {
  core::Shape shape;  ///< shape.sequence is not used
  Index query_rows = 0;
  Index key_rows = 0;
  DType type = DType::float32;
  core::Precision precision = core::Precision::float32;
  std::vector<double> q = {}, k = {}, v = {};
  std::vector<core::WorkList> calls = {};
  double output_scale = 1;

  double scale() const { return 1 / std::sqrt(double(shape.head_dim)); }
  Index query_numbers() const { return shape.batch * query_rows * shape.heads * shape.head_dim; }
  Index key_numbers() const { return shape.batch * key_rows * shape.kv_heads * shape.head_dim; }

  /// About-normal numbers, q times `amplitude`.
  void fill(double amplitude = 1) {
    q = random_values(core::TensorId::q, query_numbers(), type, 1, amplitude);
    k = random_values(core::TensorId::k, key_numbers(), type);
    v = random_values(core::TensorId::v, key_numbers(), type);
  }
};

/// A case of one head where rows 0 ... n - 1 see keys 0 ... n - 1, all or causally.
inline HostCase plain_case(Index rows, Index keys, Index head_dim, bool causal) {
  HostCase test{{1, 0, 1, 1, head_dim}, rows, keys};
  core::WorkList list;
  list.runs = {{0, 0, 1, rows}, {0, 0, 1, keys}};
  core::WorkItem item;
  item.query = {0, 1, rows};
  item.key = {1, 1, keys};
  item.mask = causal ? core::Mask::upto : core::Mask::all;
  list.items = {item};
  test.calls = {list};
  return test;
}

/// One comb index and the row that stores it.
struct CombRow {
  Index t;
  Index row;
};
inline std::vector<CombRow> comb_rows(const core::WorkList& list, const core::RowMap& map) {
  std::vector<CombRow> rows;
  for (Index r = 0; r < map.runs; ++r) {
    const core::Run& run = list.runs[std::size_t(map.first_run + r)];
    for (Index i = 0; i < run.count; ++i) rows.push_back({run.t + i, run.row + i * run.stride});
  }
  return rows;
}

/// Calls see(state, key) for every (batch, query row, head) and key vector the lists let meet, as indices of rows of D.
template <class See>
void for_each_meeting(const HostCase& test, const See& see) {
  const core::Shape& shape = test.shape;
  for (const core::WorkList& list : test.calls) {
    for (const core::WorkItem& item : list.items) {
      for (const CombRow query : comb_rows(list, item.query)) {
        for (const CombRow key : comb_rows(list, item.key)) {
          if (item.mask == core::Mask::upto && key.t > query.t) continue;
          if (item.mask == core::Mask::after && key.t <= query.t) continue;
          for (Index b = 0; b < shape.batch; ++b) {
            for (Index h = 0; h < item.head_count; ++h) {
              see((b * test.query_rows + query.row) * shape.heads + item.head_first + h * item.head_stride,
                  (b * test.key_rows + key.row) * shape.kv_heads + item.kv_head);
            }
          }
        }
      }
    }
  }
}

/// The definition in double: largest score first, then sums.
inline kernels::ReferenceResult naive_host_answer(const HostCase& test) {
  const Index D = test.shape.head_dim, states = test.query_numbers() / D;
  const double none = -std::numeric_limits<double>::infinity();
  const auto score = [&](Index state, Index key) {
    double sum = 0;
    for (Index d = 0; d < D; ++d) sum += test.q[std::size_t(state * D + d)] * test.k[std::size_t(key * D + d)];
    return sum * test.scale();
  };
  std::vector<double> largest(std::size_t(states), none), sums(std::size_t(states), 0.0);
  kernels::ReferenceResult answer{std::vector<double>(std::size_t(states * D), 0.0), {}};
  for_each_meeting(test, [&](Index state, Index key) {
    largest[std::size_t(state)] = std::max(largest[std::size_t(state)], score(state, key));
  });
  for_each_meeting(test, [&](Index state, Index key) {
    const double weight = std::exp(score(state, key) - largest[std::size_t(state)]);
    sums[std::size_t(state)] += weight;
    for (Index d = 0; d < D; ++d) answer.out[std::size_t(state * D + d)] += weight * test.v[std::size_t(key * D + d)];
  });
  for (Index s = 0; s < states; ++s) {
    const double sum = sums[std::size_t(s)];
    answer.lse.push_back(sum == 0 ? none : largest[std::size_t(s)] + std::log(sum));
    for (Index d = 0; sum > 0 && d < D; ++d) answer.out[std::size_t(s * D + d)] *= test.output_scale / sum;
  }
  return answer;
}

/// The host back end's answer. out and lse start as a number that is no result, so that an element nobody writes shows.
inline kernels::ReferenceResult host_answer(const HostCase& test, InstructionSet set,
                                            const std::function<void()>& poll = {}) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision);
  for (const core::WorkList& list : test.calls) {
    kernels::host::host_attend(list, {q.view, k.view, v.view, test.scale()}, state, poll, set);
  }
  const Index numbers = test.query_numbers(), states = numbers / shape.head_dim;
  const DType lse_type = core::lse_type(test.type);
  const std::vector<double> unwritten(std::size_t(numbers), 1234.0);
  const DeviceTensor out = to_device(unwritten, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(states), 1234.0), lse_type, test.query_rows, shape.heads, 1);
  kernels::host::host_finish(state, out.view, lse.view, test.output_scale, set);
  return {from_device(out.buffer, numbers, test.type), from_device(lse.buffer, states, lse_type)};
}

}  // namespace annulus::test
