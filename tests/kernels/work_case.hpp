// Work lists with their tensors, and the results by the definition, in double. Tests of every back end use them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/score_rule.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {

/// The lists of several calls, all on the same query rows and the same block of keys. q is (B, query_rows, H, D), k
/// (B, key_rows, Hkv, D), v (B, key_rows, Hkv, Dv); all are doubles that `type` represents exactly.
struct WorkCase {
  core::Shape shape;  ///< shape.sequence is not used
  Index query_rows = 0;
  Index key_rows = 0;
  DType type = DType::float32;
  core::Precision precision = core::Precision::float32;
  std::vector<double> q = {}, k = {}, v = {};
  std::vector<core::WorkList> calls = {};
  double output_scale = 1;
  kernels::ScoreRule rule = {};
  Index key_parts = 1;  ///< see kernels::key_parts()

  kernels::CallRule call_rule() const { return {rule.any() ? &rule : nullptr, 0}; }
  double scale() const { return 1 / std::sqrt(double(shape.head_dim)); }
  Index query_numbers() const { return shape.batch * query_rows * shape.heads * shape.head_dim; }
  Index key_numbers() const { return shape.batch * key_rows * shape.kv_heads * shape.head_dim; }
  Index value_numbers() const { return key_numbers() / shape.head_dim * shape.dim_of_values(); }
  Index out_numbers() const { return states() * shape.dim_of_values(); }
  /// The number of (batch, query row, head) triples.
  Index states() const { return query_numbers() / shape.head_dim; }
  /// Accumulators are stored in this type.
  DType sums() const { return precision == core::Precision::float64 ? DType::float64 : DType::float32; }

  /// Fills q, k and v with normally distributed numbers, times `amplitude` for q. A large amplitude gives large scores.
  void fill(double amplitude = 1) {
    q = random_values(core::TensorId::q, query_numbers(), type, 1, amplitude);
    k = random_values(core::TensorId::k, key_numbers(), type);
    v = random_values(core::TensorId::v, value_numbers(), type);
  }
};

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

inline bool sees(const core::Band& band, Index query_t, Index key_t) {
  return -band.right <= query_t - key_t && query_t - key_t <= band.left;
}
inline std::string name_of(const core::Band& band) {
  if (band == core::Band::all) return "all";
  if (band == core::Band::upto) return "upto";
  if (band == core::Band::after) return "after";
  return "left " + std::to_string(band.left) + " right " + std::to_string(band.right);
}

/// A query and a key that it sees: the head, their rows x and p of the sequence, the first row of their document.
struct Meeting {
  Index head, x, p;
  core::Index document;
};

/// Calls meet(row, key), or meet(row, key, meeting), for every vector (batch, query row, head) of q and every key
/// vector that it sees by the lists. `row` and `key` are indices of vectors of D or Dv numbers.
template <class Meet>
void for_each_meeting(const WorkCase& test, const Meet& meet) {
  const core::Shape& shape = test.shape;
  for (const core::WorkList& list : test.calls) {
    for (const core::WorkItem& item : list.items) {
      for (const CombRow query : comb_rows(list, item.query)) {
        for (const CombRow key : comb_rows(list, item.key)) {
          if (!sees(item.band, query.t, key.t)) continue;
          for (Index b = 0; b < shape.batch; ++b) {
            for (Index h = 0; h < item.head_count; ++h) {
              const Index head = item.head_first + h * item.head_stride;
              const auto row_of = [&](Index t) { return item.document + item.first_row + t * item.row_step; };
              const auto at = std::size_t((b * test.query_rows + query.row) * shape.heads + head);
              const auto key_at = std::size_t((b * test.key_rows + key.row) * shape.kv_heads + item.kv_head);
              if constexpr (std::is_invocable_v<Meet, std::size_t, std::size_t>) {
                meet(at, key_at);
              } else {
                meet(at, key_at, Meeting{head, row_of(query.t), row_of(key.t), item.document});
              }
            }
          }
        }
      }
    }
  }
}

/// The scalar product of vector i of a and vector j of b, D numbers each.
inline double dot(const std::vector<double>& a, std::size_t i, const std::vector<double>& b, std::size_t j, Index D) {
  double sum = 0;
  for (std::size_t d = 0; d < std::size_t(D); ++d) sum += a[i * std::size_t(D) + d] * b[j * std::size_t(D) + d];
  return sum;
}

/// A score by the definition, and its derivative with respect to scale * q.k.
struct NaiveScore {
  double value, slope;
};
inline NaiveScore score_of(const WorkCase& test, std::size_t row, std::size_t key, const Meeting& at) {
  const kernels::ScoreRule& rule = test.rule;
  double score = test.scale() * dot(test.q, row, test.k, key, test.shape.head_dim), slope = 1;
  if (rule.cap > 0) {
    slope = 1 / std::pow(std::cosh(score / rule.cap), 2);
    score = rule.cap * std::tanh(score / rule.cap);
  }
  const bool is_exempt = std::min(at.x, at.p) - at.document < rule.exempt;
  if (rule.slopes.empty() || is_exempt) return {score, slope};
  double far = double(std::max(at.x, at.p) - std::min(at.x, at.p));
  if (rule.coordinates) {
    const double* const xy = rule.coordinates->numbers().data();
    far = std::sqrt(std::pow(xy[2 * at.x] - xy[2 * at.p], 2) + std::pow(xy[2 * at.x + 1] - xy[2 * at.p + 1], 2));
  }
  return {score - rule.slopes[std::size_t(at.head)] * far, slope};
}

/// out (B, query_rows, H, Dv) and lse (B, query_rows, H) by the definition. One walk over the pairs finds each row's
/// largest score, a second walk makes the sums. A row without keys has out 0 and lse minus infinity.
inline kernels::ReferenceResult naive_answer(const WorkCase& test) {
  const std::size_t D = std::size_t(test.shape.dim_of_values()), states = std::size_t(test.states());
  const double none = -std::numeric_limits<double>::infinity();
  std::vector<double> largest(states, none), sums(states, 0.0);
  kernels::ReferenceResult answer{std::vector<double>(states * D, 0.0), {}};
  for_each_meeting(test, [&](std::size_t row, std::size_t key, const Meeting& at) {
    largest[row] = std::max(largest[row], score_of(test, row, key, at).value);
  });
  for_each_meeting(test, [&](std::size_t row, std::size_t key, const Meeting& at) {
    const double weight = std::exp(score_of(test, row, key, at).value - largest[row]);
    sums[row] += weight;
    for (std::size_t d = 0; d < D; ++d) answer.out[row * D + d] += weight * test.v[key * D + d];
  });
  for (std::size_t row = 0; row < states; ++row) {
    answer.lse.push_back(sums[row] == 0 ? none : largest[row] + std::log(sums[row]));
    for (std::size_t d = 0; sums[row] > 0 && d < D; ++d) answer.out[row * D + d] *= test.output_scale / sums[row];
  }
  return answer;
}

}  // namespace annulus::test
