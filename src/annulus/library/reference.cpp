#include "annulus/library/reference.hpp"

#include <algorithm>

#include "annulus/core/arithmetic.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/library/made_plan.hpp"
#include "annulus/library/pass_lock.hpp"
#include "annulus/library/tensor_checks.hpp"
#include "annulus/strategies/definition.hpp"

namespace annulus {
namespace {

/// Loads the D or Dv numbers of (b, row, head).
void load(const Tensor& tensor, Index b, Index row, Index head, std::vector<double>& to) {
  const Index first = b * tensor.strides[0] + row * tensor.strides[1] + head * tensor.strides[2];
  core::with_type(tensor.type, [&](auto number) {
    const auto* numbers = static_cast<const decltype(number)*>(tensor.data);
    for (std::size_t d = 0; d < to.size(); ++d) {
      to[d] = core::load_as<double>(numbers[first + Index(d) * tensor.strides[3]]);
    }
  });
}

}  // namespace

void reference(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Index>& rows,
               double* out, double* lse, const Progress& progress, const Tensor& sink) {
  const library::PassLock lock("reference");
  const core::DefaultArithmeticOnHost arithmetic;
  const Shape& s = plan.shape();
  std::vector<library::Argument> arguments{{"q", q, {s.batch, s.sequence, s.heads, s.head_dim}, s.type},
                                           {"k", k, {s.batch, s.kv_sequence, s.kv_heads, s.head_dim}, s.type},
                                           {"v", v, {s.batch, s.kv_sequence, s.kv_heads, s.value_dim}, s.type}};
  if (plan.made().problem.sink) arguments.push_back({"sink", sink, {1, 1, s.heads, 1}, sink.type});
  library::check("reference", "the plan", arguments);
  for (const Index row : rows) {
    if (row >= 0 && row < s.sequence) continue;
    core::fail(ErrorKind::usage, "reference: there is no row {}, expected 0 to {}", row, s.sequence - 1);
  }
  kernels::ReferencePattern pattern = strategies::reference_pattern(plan.made().problem);
  for (Index h = 0; plan.made().problem.sink && h < s.heads; ++h) {
    std::vector<double> logit(1);
    load(sink, 0, 0, h, logit);
    pattern.sink.push_back(logit[0]);
  }
  const core::Shape& shape = plan.made().problem.shape;
  const strategies::Problem& problem = plan.made().problem;
  // Queries without row numbers see every key that exists, as does the first row that exists. So each query without a
  // row number is computed as if it were that row (row 0 if no key exists).
  const auto row_of = [&](Index query) -> Index {
    if (!problem.key_ranges.empty()) return problem.key_ranges[0].empty() ? 0 : problem.key_ranges[0].begin;
    if (problem.has_queries_after_all_keys()) return 0;
    return query + (problem.queries ? problem.queries->begin : 0);
  };
  const Index count = Index(rows.size()), dim = s.value_dim;
  const auto make_row = [&](const Index i) {
    const Index head = i % s.heads, n = i / s.heads % count, b = i / s.heads / count, x = rows[std::size_t(n)];
    std::vector<double> query(static_cast<std::size_t>(s.head_dim)), key = query;
    std::vector<double> value(static_cast<std::size_t>(dim));
    load(q, b, x, head, query);
    kernels::ReferenceRow row(pattern, shape, head, row_of(x), query);
    const core::Interval keys = kernels::key_range(pattern, s.kv_sequence, s.heads, head, row_of(x));
    for (Index p = keys.begin; p < keys.end; ++p) {
      load(k, b, p, head / shape.group(), key);
      load(v, b, p, head / shape.group(), value);
      row.add(p, key, value);
    }
    row.finish({out + i * dim, std::size_t(dim)}, lse[i]);
  };
  const Index all = s.batch * count * s.heads, at_once = 16 * core::host_threads();
  for (Index first = 0; first < all; first += at_once) {
    if (progress) progress(double(first) / double(all), "reference");
    core::for_each_on_host("annulus::reference", first, std::min(first + at_once, all), make_row);
  }
}

}  // namespace annulus
