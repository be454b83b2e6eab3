// Problems whose queries may be other rows than the keys: results by the definition, and the passes of one strategy.
#pragma once

#include <optional>

#include "annulus/kernels/sink.hpp"
#include "annulus/strategies/statistics_computation.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {

/// A problem for which place_queries() has set the rows of the queries.
struct QueryCase {
  std::string name;
  Problem problem;
  std::uint64_t seed = 1;
};

inline QueryCase make_queries(const std::string& name, core::Shape shape, pattern::Pattern pattern,
                              std::optional<Index> offset, Index count, pattern::Documents documents = {},
                              core::DType type = core::DType::float32) {
  Case square = make_case(name, shape, std::move(pattern), std::move(documents), type);
  square.problem.gradients = true;
  square.problem.statistics = {true, true, 3};
  place_queries(square.problem, offset, count);
  return {name + (offset ? fmt::format(", {} queries at row {}", count, *offset) : fmt::format(", {} queries", count)),
          square.problem, 1};
}

/// Results by the definition, one query after another. q is (B, Sq, H, D), k (B, S, Hkv, D); v and out have Dv numbers.
struct QueryTruth {
  explicit QueryTruth(const QueryCase& one) : problem(one.problem), count(problem.query_count()) {
    const core::Shape& s = problem.shape;
    const auto draw = [&](core::TensorId tensor, Index rows, Index numbers, core::DType type) {
      return test::random_values(tensor, s.batch * rows * numbers, type, one.seed);
    };
    q = draw(core::TensorId::q, count, s.heads * s.head_dim, problem.type);
    k = draw(core::TensorId::k, s.sequence, s.kv_heads * s.head_dim, problem.type);
    v = draw(core::TensorId::v, s.sequence, s.kv_heads * s.dim_of_values(), problem.type);
    dout = draw(core::TensorId::dout, count, s.heads * s.dim_of_values(), problem.type);
    dlse = draw(core::TensorId::dlse, count, s.heads, core::lse_type(problem.type));
    pattern = Case{one.name, problem, one.seed}.numbers().pattern;
    if (problem.has_queries_after_all_keys()) pattern.documents = {0, s.sequence};
    if (!problem.key_ranges.empty()) {
      pattern.documents = {0, problem.key_ranges[0].begin, problem.key_ranges[0].end, s.sequence};
      pattern.gaps = {0, 2};
    }
    out.resize(dout.size());
    lse.resize(dlse.size());
    entropy.resize(dlse.size());
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(v.size());
    dsink.resize(std::size_t(s.heads));
    received.resize(std::size_t(s.batch * s.sequence * s.heads));
    weights.resize(dlse.size());
    for (Index at = 0; at < s.batch * count * s.heads; ++at) add_row(at);
  }

  /// The row number that the reference uses for query i. Queries without row numbers see all keys, so any row that has
  /// a key will do.
  Index row_of(Index i) const {
    if (!problem.key_ranges.empty()) return problem.key_ranges[0].empty() ? 0 : problem.key_ranges[0].begin;
    return problem.has_queries_after_all_keys() ? 0 : problem.queries.value_or(core::Interval{}).begin + i;
  }

  Problem problem;
  Index count;
  kernels::ReferencePattern pattern;
  std::vector<double> q, k, v, dout, dlse, out, lse, entropy, received, dq, dk, dv, dsink;
  std::vector<std::vector<double>> weights;  ///< for (b, i, h): the probability of every key

 private:
  /// Adds what query row i of batch entry b contributes with head h; `at` is the index of (b, i, h).
  void add_row(Index at) {
    using kernels::detail::add, kernels::detail::dot;
    const core::Shape& s = problem.shape;
    const Index D = s.head_dim, Dv = s.dim_of_values();
    const Index h = at % s.heads, i = at / s.heads % count, b = at / s.heads / count, x = row_of(i);
    const auto vector = [D](const std::vector<double>& tensor, Index first) {
      return std::span<const double>(tensor).subspan(std::size_t(first), std::size_t(D));
    };
    const auto value = [Dv](const std::vector<double>& tensor, Index i) {
      return std::span<const double>(tensor).subspan(std::size_t(i * Dv), std::size_t(Dv));
    };
    const auto key = [&](Index p) { return (b * s.sequence + p) * s.kv_heads + h / s.group(); };
    const auto key_at = [&](Index p) { return key(p) * D; };
    kernels::ReferenceRow row(pattern, s, h, x, vector(q, at * D));
    for (Index p = 0; p < s.sequence; ++p) row.add(p, vector(k, key_at(p)), value(v, key(p)));
    row.finish(std::span(out).subspan(std::size_t(at * Dv), std::size_t(Dv)), lse[std::size_t(at)]);
    entropy[std::size_t(at)] = row.entropy();
    const double own_lse = lse[std::size_t(at)];
    const double delta = dot(value(dout, at), value(out, at)) - dlse[std::size_t(at)];
    if (problem.sink && !std::isinf(own_lse)) dsink[std::size_t(h)] -= std::exp(Case::sink_of(h) - own_lse) * delta;
    const core::Interval document = kernels::document_of(pattern, s.sequence, x);
    const double output_scale = problem.pattern.output_scale();
    weights[std::size_t(at)].resize(std::size_t(s.sequence));
    for (Index p = document.begin; p < document.end; ++p) {
      const Index times = kernels::multiplicity(pattern, s.heads, h, x, p, document);
      if (times == 0) continue;
      const double P = double(times) * std::exp(pattern.scale * dot(vector(q, at * D), vector(k, key_at(p))) - own_lse);
      const double dS = P * (output_scale * dot(value(dout, at), value(v, key(p))) - delta);
      weights[std::size_t(at)][std::size_t(p)] = P;
      received[std::size_t((b * s.sequence + p) * s.heads + h)] += P;
      add(dq, at * D, pattern.scale * dS, vector(k, key_at(p)));
      add(dk, key_at(p), pattern.scale * dS, vector(q, at * D));
      add(dv, key(p) * Dv, output_scale * P, value(dout, at));
    }
  }
};

/// One strategy's forward, statistics and backward pass on this rank.
class QueryRun {
 public:
  QueryRun(const Strategy& strategy, const Case& one, const QueryTruth& truth, const comm::Communicator& comm)
      : strategy_(strategy),
        name_(std::string(strategy.name()) + ", " + one.name + (one.problem.reproducible ? ", reproducible" : "")),
        problem_(one.problem),
        truth_(truth),
        comm_(comm),
        partition_(strategy.partition(problem_, comm.size())),
        keys_(partition_[std::size_t(comm.rank())]) {
    const pattern::Partition held = query_rows(problem_, partition_);
    for (const core::Interval& rows : held[std::size_t(comm.rank())].intervals()) {
      const Index first = problem_.queries ? problem_.queries->begin : 0;
      queries_.push_back({rows.begin - first, rows.end - first});
    }
  }

  /// Runs the three passes.
  void run() {
    SCOPED_TRACE(name_);
    tensors_.q = on_device(own(truth_.q), problem_.type);
    const auto kv = kv_of(problem_, own_keys(truth_.k), own_keys(truth_.v));
    tensors_.kv = core::Buffer("kv", Index(kv.size()));
    core::copy_to_device(tensors_.kv.data(), kv.data(), tensors_.kv.bytes());
    tensors_.sink = truth_.pattern.sink;
    spend(strategy_.predict(problem_, partition_, comm_.rank()),
          [&] { return strategy_.forward(problem_, partition_, comm_, tensors_, {}); });
    if (problem_.statistics.need_pass()) {
      const auto schedule = strategy_.statistics_schedule(problem_, partition_);
      spend(schedule->predict(comm_.rank()), [&] { return run_statistics_pass(*schedule, comm_, tensors_, {}); });
      told_ = {bytes_of(tensors_.entropy), bytes_of(tensors_.received), bytes_of(tensors_.top_rows),
               bytes_of(tensors_.top_weights)};
      tensors_.entropy = tensors_.received = tensors_.top_rows = tensors_.top_weights = {};
    }
    tensors_.dout = on_device(own(truth_.dout), problem_.type);
    tensors_.dlse = on_device(own(truth_.dlse), core::lse_type(problem_.type));
    spend(strategy_.predict_backward(problem_, partition_, comm_.rank()),
          [&] { return strategy_.backward(problem_, partition_, comm_, tensors_, {}); });
  }

  /// Runs the three passes; compares their costs with the predictions, and their results with the definition.
  void check() {
    looks_at_cost_ = true;
    run();
    SCOPED_TRACE(name_);
    const core::Shape& s = problem_.shape;
    const core::DType type = problem_.type, lse_type = core::lse_type(type);
    const double forward = core::forward_tolerance(type), backward = core::gradient_tolerance(type);
    const auto expect = [&](const std::vector<std::byte>& found, core::DType stored, const std::vector<double>& wanted,
                            double tolerance, const char* what) {
      ASSERT_EQ(found.size(), wanted.size() * core::bytes_of(stored)) << what;
      EXPECT_TRUE(test::close_to(test::from_storage(found.data(), Index(wanted.size()), stored), wanted, tolerance))
          << what;
    };
    expect(bytes_of(tensors_.out), type, own(truth_.out), forward, "out");
    expect(bytes_of(tensors_.lse), lse_type, own(truth_.lse), forward, "lse");
    expect(bytes_of(tensors_.dq), type, own(truth_.dq), backward, "dq");
    expect(bytes_of(tensors_.dkv), type, keys(truth_.dk, truth_.dv), backward, "dk, dv");
    if (problem_.sink) {
      EXPECT_TRUE(test::close_to(kernels::sink_gradients_of(tensors_.sink_sums), truth_.dsink, backward)) << "dsink";
    }
    if (!problem_.statistics.any()) return;
    const double told = std::max(core::forward_tolerance(problem_.precision), core::forward_tolerance(lse_type));
    // Entropy is a difference of larger numbers, so it is less exact.
    expect(told_.entropy, lse_type, own(truth_.entropy), 10 * told, "entropy");
    expect(told_.received, core::DType::float64,
           test::take_rows(truth_.received, s.batch, s.sequence, keys_.intervals()), told, "received");
    check_lists(told);
  }

  /// Checks that all results of this rank, statistics included, have the same bytes as the same rows in `whole`, a run
  /// that has all rows.
  void expect_bits_of(const QueryRun& whole) const {
    SCOPED_TRACE(name_);
    const Index batch = problem_.shape.batch;
    const auto same = [](const std::vector<std::byte>& mine, const std::vector<std::byte>& all, Index parts,
                         Index sequence, const std::vector<core::Interval>& rows) {
      return mine == rows_of(all, parts, sequence, pattern::StoredRows(rows));
    };
    const Tensors& all = whole.tensors_;
    EXPECT_TRUE(same(bytes_of(tensors_.out), bytes_of(all.out), batch, truth_.count, queries_)) << "out";
    EXPECT_TRUE(same(bytes_of(tensors_.lse), bytes_of(all.lse), batch, truth_.count, queries_)) << "lse";
    EXPECT_TRUE(same(bytes_of(tensors_.dq), bytes_of(all.dq), batch, truth_.count, queries_)) << "dq";
    for (const Index which : {0, 1}) {
      EXPECT_TRUE(same(one_of_dkv(problem_, bytes_of(tensors_.dkv), keys_.count(), which),
                       one_of_dkv(problem_, bytes_of(all.dkv), problem_.shape.sequence, which), batch,
                       problem_.shape.sequence, keys_.intervals()))
          << (which == 0 ? "dk" : "dv");
    }
    EXPECT_TRUE(same(told_.received, whole.told_.received, batch, problem_.shape.sequence, keys_.intervals()))
        << "received";
    EXPECT_TRUE(same(told_.entropy, whole.told_.entropy, batch, truth_.count, queries_)) << "entropy";
    EXPECT_TRUE(same(told_.top_rows, whole.told_.top_rows, batch, truth_.count, queries_)) << "top rows";
    EXPECT_TRUE(same(told_.top_weights, whole.told_.top_weights, batch, truth_.count, queries_)) << "top weights";
    if (problem_.sink) {
      EXPECT_EQ(kernels::sink_gradients_of(tensors_.sink_sums), kernels::sink_gradients_of(all.sink_sums));
    }
  }

 private:
  template <class Pass>
  void spend(const Prediction& predicted, Pass&& pass) {
    const Spending spending;
    const core::RankMetrics metrics = pass();
    if (looks_at_cost_) spending.expect(metrics, predicted, keys_, comm_);
  }
  static core::Buffer on_device(const std::vector<double>& values, core::DType type) {
    const auto bytes = test::to_storage(values, type);
    core::Buffer buffer("test tensor", Index(bytes.size()));
    core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
    return buffer;
  }
  static std::vector<std::byte> bytes_of(const core::Buffer& buffer) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
    core::copy_to_host(bytes.data(), buffer.data(), buffer.bytes());
    return bytes;
  }
  /// Takes the given rows of an array (parts, sequence, width).
  static std::vector<std::byte> rows_of(const std::vector<std::byte>& whole, Index parts, Index sequence,
                                        const pattern::StoredRows& rows) {
    const Index width = Index(whole.size()) / (parts * sequence);
    std::vector<std::byte> taken;
    for (Index part = 0; part < parts; ++part) {
      for (const core::Interval& interval : rows.intervals()) {
        const auto first = whole.begin() + (part * sequence + interval.begin) * width;
        taken.insert(taken.end(), first, first + interval.size() * width);
      }
    }
    return taken;
  }
  /// own(): this rank's queries of a (B, Sq, ...) tensor. own_keys(): this rank's keys of a (B, S, ...) tensor. keys():
  /// those of two such tensors, one after the other.
  std::vector<double> own(const std::vector<double>& whole) const {
    return test::take_rows(whole, problem_.shape.batch, truth_.count, queries_);
  }
  std::vector<std::byte> own_keys(const std::vector<double>& whole) const {
    const core::Shape& s = problem_.shape;
    return test::to_storage(test::take_rows(whole, s.batch, s.sequence, keys_.intervals()), problem_.type);
  }
  std::vector<double> keys(const std::vector<double>& a, const std::vector<double>& b) const {
    const core::Shape& s = problem_.shape;
    std::vector<double> both = test::take_rows(a, s.batch, s.sequence, keys_.intervals());
    const std::vector<double> second = test::take_rows(b, s.batch, s.sequence, keys_.intervals());
    both.insert(both.end(), second.begin(), second.end());
    return both;
  }

  /// Checks that the listed rows have the largest weights, up to rounding.
  void check_lists(double tolerance) const {
    const core::Shape& s = problem_.shape;
    const Index k = problem_.statistics.top_keys;
    const auto* const rows = reinterpret_cast<const Index*>(told_.top_rows.data());
    const std::vector<double> found = test::from_storage(
        told_.top_weights.data(), Index(told_.top_rows.size() / sizeof(Index)), core::lse_type(problem_.type));
    Index at = 0;
    for (Index b = 0; b < s.batch; ++b) {
      for (const core::Interval& part : queries_) {
        for (Index i = part.begin; i < part.end; ++i) {
          for (Index h = 0; h < s.heads; ++h, at += k) {
            const std::vector<double>& weights = truth_.weights[std::size_t((b * truth_.count + i) * s.heads + h)];
            std::vector<double> largest = weights;
            std::sort(largest.begin(), largest.end(), std::greater<>());
            largest.resize(std::max(weights.size(), std::size_t(k)));
            for (Index j = 0; j < k; ++j) {
              const Index row = rows[at + j];
              ASSERT_NEAR(found[std::size_t(at + j)], largest[std::size_t(j)], tolerance) << "query " << i;
              ASSERT_EQ(row == -1, found[std::size_t(at + j)] == 0);
              const double weight = row < 0 ? 0 : weights.at(std::size_t(row));
              ASSERT_NEAR(weight, largest[std::size_t(j)], tolerance) << "query " << i;
            }
          }
        }
      }
    }
    ASSERT_EQ(at, Index(found.size()));
  }

  const Strategy& strategy_;
  const std::string name_;
  const Problem problem_;
  const QueryTruth& truth_;
  const comm::Communicator& comm_;
  const pattern::Partition partition_;
  const pattern::StoredRows keys_;
  std::vector<core::Interval> queries_;  // rows of q
  Tensors tensors_;
  struct Told {
    std::vector<std::byte> entropy, received, top_rows, top_weights;
  };
  Told told_;  // bytes of the statistics; the backward pass runs without them
  bool looks_at_cost_ = false;
};

inline std::vector<QueryCase> awkward_queries() {
  using pattern::Semantics;
  const Index all = pattern::whole_document;
  const pattern::Pattern dense{Semantics::longnet, {{}}, false, false}, causal{Semantics::longnet, {{}}, true, false};
  const pattern::Pattern dilated{Semantics::longnet, {{8, 1}, {16, 3}, {all, 5}}, true, false};
  return {
      make_queries("one row, one query", {1, 1, 1, 1, 1}, causal, 0, 1),
      make_queries("one query, last", {2, 37, 4, 2, 8}, causal, 36, 1),
      make_queries("one query, first", {1, 37, 4, 2, 8}, causal, 0, 1),
      make_queries("one query in the middle", {1, 37, 4, 2, 8}, dilated, 17, 1),
      make_queries("all rows", {1, 29, 2, 1, 8}, dilated, 0, 29),
      make_queries("all rows but one", {1, 29, 2, 1, 8}, dilated, 1, 28),
      make_queries("fewer keys than ranks", {2, 3, 2, 1, 5}, causal, 1, 2),
      make_queries("fewer queries than ranks", {1, 50, 6, 2, 16}, dilated, 24, 3),
      make_queries("one key, no row numbers", {1, 1, 2, 2, 8}, dense, std::nullopt, 9),
      make_queries("fewer keys than ranks, no row numbers", {2, 2, 4, 2, 8}, dense, std::nullopt, 17),
      make_queries("no row numbers, more", {2, 24, 4, 2, 20}, dense, std::nullopt, 61),
      make_queries("no row numbers, one more", {1, 24, 3, 3, 8}, dense, std::nullopt, 25),
      make_queries("no row numbers, as many", {1, 24, 3, 3, 8}, dense, std::nullopt, 24),
      make_queries("no row numbers, fewer", {2, 40, 6, 2, 12}, dense, std::nullopt, 7),
      make_queries("no row numbers, one", {1, 40, 2, 1, 12}, dense, std::nullopt, 1),
      make_queries("queries that see nothing", {1, 40, 2, 2, 12}, {Semantics::longnet, {{20, 7}}, false, false}, 3, 9),
  };
}

/// Cases of all semantics, causal or not, with documents, grouped heads, sliding windows and sinks. Their queries are
/// at either end of the keys or in between.
inline std::vector<QueryCase> pattern_queries() {
  using pattern::Window;
  const Index all = pattern::whole_document;
  std::vector<QueryCase> cases;
  const auto add = [&](QueryCase one) {
    one.problem.sink = cases.size() % 2 == 1;
    cases.push_back(std::move(one));
  };
  Index turn = 0;
  for (const auto& semantics : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      for (const pattern::Documents& documents : {pattern::Documents{}, pattern::Documents{0, 11, 11, 40, 53}}) {
        const Index count = std::array<Index, 5>{20, 5, 33, 1, 52}[std::size_t(turn % 5)];
        const Index offset = std::array<Index, 3>{53 - count, 0, (53 - count) / 2}[std::size_t(turn % 3)];
        const pattern::Pattern pattern{semantics.value, {{8, 1}, {20, 3}, {all, 4}}, causal, false};
        add(make_queries(std::string(semantics.name) + (causal ? " causal" : ""),
                         {1, 53, 6, std::array{6, 2, 1}[std::size_t(turn % 3)], 8}, test::without_displacement(pattern),
                         offset, count, documents));
        ++turn;
      }
    }
  }
  const pattern::Semantics longnet = pattern::Semantics::longnet;
  add(make_queries("window, causal", {2, 97, 4, 2, 12}, {longnet, {{all, 1, Window{9, 0}}}, true, false}, 60, 30));
  add(make_queries("dilated window, documents", {1, 53, 6, 2, 8}, {longnet, {{all, 3, Window{2, 4}}}, false, false}, 20,
                   31, {0, 11, 11, 40, 53}));
  add(make_queries("window and first rows", {1, 71, 4, 2, 16}, {longnet, {{all, 1, Window{6, 3, 5}}}, false, false}, 40,
                   12));
  add(make_queries("window and first rows, causal", {1, 71, 4, 2, 16},
                   {longnet, {{all, 1, Window{6, 0, 5}}, {16, 2}}, true, false}, 2, 40));
  return cases;
}

inline std::vector<QueryCase> stored_queries() {
  std::vector<QueryCase> cases;
  const Index all = pattern::whole_document;
  for (const core::DType type : core::all_dtypes) {
    const pattern::Pattern pattern{pattern::Semantics::longnet, {{16, 1}, {all, 3}}, true, false};
    cases.push_back(make_queries(std::string(core::name_of(type)), {2, 45, 4, 2, 24}, pattern, 20, 13, {}, type));
    cases.push_back(make_queries(std::string(core::name_of(type)), {2, 19, 4, 2, 24},
                                 {pattern::Semantics::longnet, {{}}, false, false}, std::nullopt, 40, {}, type));
  }
  const std::size_t stored = cases.size();
  for (std::size_t i = 0; i < stored; ++i) {
    QueryCase products = cases[i];
    if (products.problem.type == core::DType::float32) products.problem.precision = core::Precision::float64;
    if (products.problem.type == core::DType::bfloat16) products.problem.precision = core::Precision::bfloat16;
    if (products.problem.precision == cases[i].problem.precision) continue;
    if (!kernels::why_no_products(products.problem.backend, products.problem.precision).empty()) continue;
    products.problem.statistics = {};
    products.name += ", other products";
    cases.push_back(products);
  }
  QueryCase device = cases.front();
  device.problem.backend = kernels::Backend::device;
  device.problem.statistics = {};
  device.name += ", device tiles";
  cases.push_back(device);
  return cases;
}

}  // namespace annulus::strategies
