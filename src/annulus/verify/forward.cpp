#include "annulus/verify/forward.hpp"

#include <algorithm>
#include <numeric>

namespace annulus::verify {
namespace {

using core::Shape;
using core::StoredTensor;

/// Reads the query vectors of the rows, neighbouring rows in one read. Finds the keys that each row sees.
std::vector<QueryRow> begin_rows(const VerifyInput& input, const std::vector<Index>& rows) {
  const Shape& s = input.shape;
  std::vector<QueryRow> all;
  for (std::size_t i = 0; i < rows.size();) {
    Interval run{rows[i], rows[i]};
    for (; i < rows.size() && rows[i] == run.end; ++i) ++run.end;
    const Numbers q = input.rows(StoredTensor::q, run);  // (B, run, H, D)
    for (Index x = run.begin; x < run.end; ++x) {
      for (Index b = 0; b < s.batch; ++b) {
        for (Index h = 0; h < s.heads; ++h) {
          const auto at = q.begin() + ((b * run.size() + x - run.begin) * s.heads + h) * s.head_dim;
          all.push_back({b,
                         x,
                         h,
                         kernels::key_runs(input.pattern, s.sequence, s.heads, h, input.row_of(x)),
                         {at, at + s.head_dim},
                         {}});
        }
      }
    }
  }
  return all;
}

}  // namespace

void for_each_key(
    const VerifyInput& input, const std::vector<QueryRow>& rows,
    const std::function<void(std::size_t, Index, std::span<const double>, std::span<const double>)>& visit,
    const ShareShown& shown) {
  const Shape& s = input.shape;
  const Index D = s.head_dim, Dv = s.dim_of_values();
  std::vector<WantedRows> wanted;
  for (const QueryRow& row : rows) wanted.push_back(row.keys);
  const auto look = [&](Interval chunk) {
    const Numbers k = input.rows(StoredTensor::k, chunk), v = input.rows(StoredTensor::v, chunk);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const Index p : rows_in(rows[i].keys, chunk)) {
        const Index at = (rows[i].b * chunk.size() + p - chunk.begin) * s.kv_heads + rows[i].h / s.group();
        visit(i, p, std::span(k).subspan(std::size_t(at * D), std::size_t(D)),
              std::span(v).subspan(std::size_t(at * Dv), std::size_t(Dv)));
      }
    }
  };
  for_each_stretch(wanted, s.sequence, read_steps(input, s.kv_heads * std::max(D, Dv)), look, shown);
}

std::vector<QueryRow> recompute_rows(const VerifyInput& input, const std::vector<Index>& rows,
                                     const ShareShown& shown) {
  std::vector<QueryRow> all = begin_rows(input, rows);
  std::vector<kernels::ReferenceRow> sums;
  for (const QueryRow& row : all) sums.emplace_back(input.pattern, input.shape, row.h, input.row_of(row.x), row.q);
  for_each_key(
      input, all, [&](std::size_t i, Index p, auto k, auto v) { sums[i].add(p, k, v); }, shown);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].out.resize(std::size_t(input.shape.dim_of_values()));
    sums[i].finish(all[i].out, all[i].lse);
    all[i].entropy = sums[i].entropy();
  }
  return all;
}

Probability probability(const VerifyInput& input, Index h, Index query, Index p, std::span<const double> q,
                        std::span<const double> k, double lse) {
  const Shape& s = input.shape;
  const Index x = input.row_of(query);
  const Interval document = kernels::document_of(input.pattern, s.sequence, x);
  const Index times = kernels::multiplicity(input.pattern, s.heads, h, x, p, document);
  if (times == 0) return {0, 0};
  const double product = input.pattern.scale * std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
  const kernels::ReferenceScore score = kernels::score_of(input.pattern, h, x, p, document, product);
  return {double(times) * std::exp(score.value - lse), score.slope};
}

double score_size(const VerifyInput& input, Index h, double lse) {
  if (std::isinf(lse)) return 0;
  const double sink = input.pattern.sink.empty() ? 0 : std::exp(input.pattern.sink[std::size_t(h)] - lse);
  return std::max(0.0, 1 - sink) * std::max(0.0, std::abs(lse) - std::log(double(input.shape.sequence)));
}

RowCheck::RowCheck(const VerifyInput& input, const ResultRows& result, StoredTensor tensor, Deviations& all)
    : input_(input),
      tensor_(entry_of(tensor)),
      rows_(result, std::string(tensor_.name)),
      deviation_(all[std::string(tensor_.name)]) {}

void RowCheck::compare(Index b, Index x, Index h, std::span<const double> expected, double scores,
                       std::span<const double> squares) {
  deviation_.scores = std::max(deviation_.scores, scores);
  using Entry = core::StoredTensorEntry;
  const Index heads = tensor_.heads == Entry::Heads::key ? input_.shape.kv_heads : input_.shape.heads;
  const double* const found = rows_.row(x).data() + (b * heads + h) * Index(expected.size());
  for (std::size_t d = 0; d < expected.size(); ++d) {
    const auto number = tensor_.numbers == Entry::Numbers::one ? std::nullopt : std::optional(Index(d));
    deviation_.compare(
        found[d], expected[d], [&] { return input_.index_text(b, x, h, number, tensor_.rows == Entry::Rows::key); },
        squares.empty() ? 0 : std::sqrt(squares[d]));
  }
}

void compare_forward(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows,
                     bool has_entropy, Deviations& all) {
  RowCheck out(input, result, StoredTensor::out, all), lse(input, result, StoredTensor::lse, all);
  for (const QueryRow& row : rows) {
    out.compare(row.b, row.x, row.h, row.out, score_size(input, row.h, row.lse));
    lse.compare(row.b, row.x, row.h, {&row.lse, 1});
  }
  if (!has_entropy) return;
  RowCheck entropy(input, result, StoredTensor::entropy, all);
  for (const QueryRow& row : rows) {
    entropy.compare(row.b, row.x, row.h, {&row.entropy, 1});
    // Entropy is the difference of two numbers as large as lse, so its error is measured against the largest |lse|.
    Deviation& deviation = all["entropy"];
    if (std::isfinite(row.lse)) deviation.reference = std::max(deviation.reference, std::abs(row.lse));
  }
}

}  // namespace annulus::verify
