#include "annulus/verify/gradients.hpp"

#include <fmt/format.h>

#include <numeric>

namespace annulus::verify {
namespace {

using core::Shape;
using core::StoredTensor;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

using Vector = std::span<const double>;  // (D), or (Dv) for v and dout

/// A row of one query head.
struct Query {
  Index h, x;
  Vector q, dout;
  double lse, delta;
};

/// The formulas of docs/semantics.md for P and dS, for the pattern of one input.
class Definition {
 public:
  explicit Definition(const VerifyInput& input)
      : scale(input.pattern.scale),
        output_scale(input.pattern.group_scale ? 1 / double(input.pattern.pairs.size()) : 1),
        input_(input) {}

  /// For a query, and a key with the vectors k and v: `p` is P. `ds` is dS = P (dP - delta), times the derivative of
  /// the score if scores are capped. `ds_terms` is the sum of the absolute values of the two terms of dS.
  struct Factors {
    double p = 0, ds = 0, ds_terms = 0;
  };
  Factors factors(const Query& query, Index key, Vector k, Vector v) const {
    const auto [p, slope] = probability(input_, query.h, query.x, key, query.q, k, query.lse);
    if (p == 0) return {};
    const double dp = output_scale * dot(query.dout, v);
    return {p, slope * p * (dp - query.delta), slope * p * (std::abs(dp) + std::abs(query.delta))};
  }

  const double scale, output_scale;

 private:
  const VerifyInput& input_;
};

// ---- dk, dv, received ----

/// Returns a range of query numbers (rows of q) with all queries that see key p in some head. The range spans the
/// key's segments or windows and, if attention is causal, begins at p.
Interval viewers_of(const VerifyInput& input, Index p) {
  if (!input.has_query_rows) return input.viewers_of(p);
  const Shape& s = input.shape;
  const kernels::ReferencePattern viewers = kernels::mirrored(input.pattern);
  Interval all{p, p + 1};
  for (Index h = 0; h < s.heads; ++h) {
    const Interval range = kernels::key_range(viewers, s.sequence, s.heads, h, p);
    if (!range.empty()) all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
  }
  if (input.pattern.causal) all.begin = p;
  const Index first = input.first_query;
  return {std::max<Index>(all.begin - first, 0), std::min(all.end - first, input.queries)};
}

/// Returns the numbers (rows of q) of head h's queries that see key p. A query may be in several runs.
WantedRows viewers_by(const VerifyInput& input, Index h, Index p) {
  if (!input.has_query_rows) return {{input.viewers_of(p).begin, input.viewers_of(p).end, 1}};
  WantedRows runs = kernels::key_runs(kernels::mirrored(input.pattern), input.shape.sequence, input.shape.heads, h, p);
  for (kernels::RowRun& run : runs) {
    if (input.pattern.causal) run.first = p;  // p is a row of the run; no earlier row sees p
    run.first -= input.first_query;           // negative if the run begins before the first query
    run.end = std::min(run.end - input.first_query, input.queries);
  }
  return runs;
}

std::vector<KeyRow> begin_keys(const VerifyInput& input, const std::vector<Index>& keys) {
  const Shape& s = input.shape;
  const Index D = s.head_dim, Dv = s.dim_of_values();
  std::vector<KeyRow> all;
  for (const Index p : keys) {
    const Numbers k = input.rows(StoredTensor::k, {p, p + 1}), v = input.rows(StoredTensor::v, {p, p + 1});
    for (Index b = 0; b < s.batch; ++b) {
      for (Index head = 0; head < s.kv_heads; ++head) {
        std::vector<WantedRows> viewers;
        for (Index h = head * s.group(); h < (head + 1) * s.group(); ++h) viewers.push_back(viewers_by(input, h, p));
        const Index at = b * s.kv_heads + head;
        all.push_back({.b = b,
                       .p = p,
                       .head = head,
                       .viewers = viewers,
                       .k = {k.begin() + at * D, k.begin() + (at + 1) * D},
                       .v = {v.begin() + at * Dv, v.begin() + (at + 1) * Dv},
                       .dk = Sums(std::size_t(D)),
                       .dv = Sums(std::size_t(Dv)),
                       .received = Numbers(std::size_t(s.group()))});
      }
    }
  }
  return all;
}

/// Returns dout.out - dlse (B, rows, H) for a chunk of queries.
Numbers deltas(const VerifyInput& input, Interval chunk, const Numbers& dout, const Numbers& out) {
  const auto Dv = std::size_t(input.shape.dim_of_values());
  Numbers delta = input.rows(StoredTensor::dlse, chunk);
  for (std::size_t i = 0; i < delta.size(); ++i) {
    delta[i] = dot(std::span(dout).subspan(i * Dv, Dv), std::span(out).subspan(i * Dv, Dv)) - delta[i];
  }
  return delta;
}

/// Adds the contributions of a chunk of queries to dk, dv and received of the keys.
void add_queries(const VerifyInput& input, const ResultsOf& results_by, Interval chunk, std::vector<KeyRow>& keys) {
  const Shape& s = input.shape;
  const auto D = std::size_t(s.head_dim), Dv = std::size_t(s.dim_of_values());
  const Definition definition(input);
  const Numbers q = input.rows(StoredTensor::q, chunk), dout = input.rows(StoredTensor::dout, chunk);
  const RowResults results = results_by(chunk);
  const Numbers delta = deltas(input, chunk, dout, results.out);
  Numbers sizes;
  for (const double lse : results.lse) sizes.push_back(score_size(input, Index(sizes.size()) % s.heads, lse));
  for (KeyRow& key : keys) {
    for (Index h = key.head * s.group(); h < (key.head + 1) * s.group(); ++h) {
      for (const Index x : rows_in(key.viewers[std::size_t(h % s.group())], chunk)) {
        const auto at = std::size_t((key.b * chunk.size() + x - chunk.begin) * s.heads + h);
        const Query query{h,        x, Vector(q).subspan(at * D, D), Vector(dout).subspan(at * Dv, Dv), results.lse[at],
                          delta[at]};
        const auto [p, ds, ds_terms] = definition.factors(query, key.p, key.k, key.v);
        key.dk.add(definition.scale * ds, definition.scale * ds_terms, query.q);
        key.dv.add(definition.output_scale * p, definition.output_scale * p, query.dout);
        key.received[std::size_t(h % s.group())] += p;
        if (p > 0) key.scores = std::max(key.scores, sizes[at]);
      }
    }
  }
}

}  // namespace

void Sums::add(double factor, double size, std::span<const double> x) {
  for (std::size_t d = 0; d < x.size(); ++d) {
    values[d] += factor * x[d];
    squares[d] += size * x[d] * size * x[d];
  }
}

bool can_recompute_viewers(const VerifyInput& input, const std::vector<Index>& rows) {
  const Shape& s = input.shape;
  Index triple_count = 0, next = 0;  // the triples of needed rows before `next` are counted already
  std::vector<Interval> viewers;
  for (const Index p : rows) viewers.push_back(viewers_of(input, p));
  std::sort(viewers.begin(), viewers.end(), [](Interval a, Interval b) { return a.begin < b.begin; });
  for (const Interval& range : viewers) {
    for (next = std::max(next, range.begin); next < range.end; ++next) {
      for (Index h = 0; h < s.heads; ++h) {
        triple_count +=
            s.batch * (1 + kernels::key_range(input.pattern, s.sequence, s.heads, h, input.row_of(next)).size());
      }
      if (triple_count > largest_recomputed) return false;
    }
  }
  return true;
}

RowResults results_of(const VerifyInput& input, const std::vector<QueryRow>& queries, Interval rows) {
  const core::Shape& s = input.shape;
  const std::size_t numbers = std::size_t(s.batch * rows.size() * s.heads);
  RowResults all{Numbers(numbers * std::size_t(s.dim_of_values())), Numbers(numbers)};
  for (const QueryRow& row : queries) {
    const Index at = (row.b * rows.size() + row.x - rows.begin) * s.heads + row.h;
    std::copy(row.out.begin(), row.out.end(), all.out.begin() + at * s.dim_of_values());
    all.lse[std::size_t(at)] = row.lse;
  }
  return all;
}

RowResults recompute_results(const VerifyInput& input, Interval chunk) {
  std::vector<Index> rows(static_cast<std::size_t>(chunk.size()));
  std::iota(rows.begin(), rows.end(), chunk.begin);
  return results_of(input, recompute_rows(input, rows), chunk);
}

std::vector<Sums> recompute_dq(const VerifyInput& input, const std::vector<QueryRow>& rows) {
  const Shape& s = input.shape;
  const Definition definition(input);
  std::vector<Numbers> dout;
  std::vector<Sums> dq(rows.size(), Sums(std::size_t(s.head_dim)));
  Numbers delta;
  RowReader all_dout(input, StoredTensor::dout), all_dlse(input, StoredTensor::dlse);
  for (const QueryRow& row : rows) {
    const Index head = row.b * s.heads + row.h;
    const auto at = all_dout.row(row.x).begin() + head * s.dim_of_values();
    dout.emplace_back(at, at + s.dim_of_values());
    delta.push_back(dot(dout.back(), row.out) - all_dlse.row(row.x)[std::size_t(head)]);
  }
  for_each_key(input, rows, [&](std::size_t i, Index p, auto k, auto v) {
    const QueryRow& row = rows[i];
    const Query query{row.h, row.x, row.q, dout[i], row.lse, delta[i]};
    const auto factors = definition.factors(query, p, k, v);
    dq[i].add(definition.scale * factors.ds, definition.scale * factors.ds_terms, k);
  });
  return dq;
}

std::vector<KeyRow> recompute_keys(const VerifyInput& input, const std::vector<Index>& keys, const ResultsOf& results,
                                   Index chunk_rows, const ShareShown& shown) {
  const Shape& s = input.shape;
  std::vector<KeyRow> rows = begin_keys(input, keys);
  std::vector<WantedRows> viewers;
  for (const KeyRow& row : rows) viewers.insert(viewers.end(), row.viewers.begin(), row.viewers.end());
  ReadSteps steps = read_steps(input, s.heads * std::max(s.head_dim, s.dim_of_values()));
  steps.rows = std::min(steps.rows, chunk_rows);
  if (chunk_rows < input.queries) steps.gap = 1;  // do not recompute the unneeded rows in a gap
  for_each_stretch(
      viewers, input.queries, steps, [&](Interval chunk) { add_queries(input, results, chunk, rows); }, shown);
  return rows;
}

void compare_dq(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& queries,
                Deviations& all) {
  RowCheck dq(input, result, StoredTensor::dq, all);
  const std::vector<Sums> expected = recompute_dq(input, queries);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const QueryRow& row = queries[i];
    dq.compare(row.b, row.x, row.h, expected[i].values, score_size(input, row.h, row.lse), expected[i].squares);
  }
}

Deviation compare_dsink(const VerifyInput& input, const ResultRows& result, const std::vector<double>& found,
                        const comm::Communicator& comm) {
  const Shape& s = input.shape;
  const auto heads = std::size_t(s.heads);
  Numbers sums(2 * heads);  // [h]: sum of head h; [heads + h]: sum of the squares of its terms
  Deviation dsink;
  comm::agree(comm, [&] {
    const Interval mine = core::even_part(input.queries, comm.size(), comm.rank());
    const Index step = read_steps(input, s.heads * s.dim_of_values()).rows;
    for (Index begin = mine.begin; begin < mine.end; begin += step) {
      const Interval chunk{begin, std::min(begin + step, mine.end)};
      const Numbers lse = result("lse", chunk);
      const Numbers delta = deltas(input, chunk, input.rows(StoredTensor::dout, chunk), result("out", chunk));
      for (std::size_t i = 0; i < lse.size(); ++i) {
        if (std::isinf(lse[i])) continue;
        const double weight = std::exp(input.pattern.sink[i % heads] - lse[i]), term = -weight * delta[i];
        dsink.scores = std::max(dsink.scores, std::min(weight, 1.0) * std::abs(lse[i]));
        sums[i % heads] += term;
        sums[heads + i % heads] += term * term;
      }
    }
  });
  comm.add_up(sums);
  for (std::size_t h = 0; h < heads; ++h) {
    dsink.compare(
        found[h], sums[h], [&] { return fmt::format("[{}]", h); }, std::sqrt(sums[heads + h]));
  }
  return dsink;
}

void compare_keys(const VerifyInput& input, const ResultRows& result, const std::vector<Index>& keys, KeySums sums,
                  bool recompute, Deviations& all, const ShareShown& shown) {
  const Index group = input.shape.group();
  std::optional<RowCheck> dk, dv, received;
  if (sums.gradients)
    dk.emplace(input, result, StoredTensor::dk, all), dv.emplace(input, result, StoredTensor::dv, all);
  if (sums.received) received.emplace(input, result, StoredTensor::received, all);
  const auto results = [&](Interval rows) -> RowResults {
    if (recompute) return recompute_results(input, rows);
    return {result("out", rows), result("lse", rows)};
  };
  for (const KeyRow& row : recompute_keys(input, keys, results, recompute ? recomputed_rows : input.queries, shown)) {
    if (dk) dk->compare(row.b, row.p, row.head, row.dk.values, row.scores, row.dk.squares);
    if (dv) dv->compare(row.b, row.p, row.head, row.dv.values, row.scores);
    for (Index i = 0; received && i < group; ++i) {
      received->compare(row.b, row.p, row.head * group + i, {&row.received[std::size_t(i)], 1}, row.scores);
    }
  }
}

}  // namespace annulus::verify
