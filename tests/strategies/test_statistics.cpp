// entropy, received and top rows of every strategy, for the cases of the forward test, against the float64 definition.
// Each rank checks its own rows, and the predicted cost. With more than 2 ranks, which share few cores, only a sixth of
// these checks runs, drawn with a seed.
#include <algorithm>
#include <set>

#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

/// Probabilities (B, H, S, S) by the definition, summed over the pairs. Filled-in keys and sinks count in lse, but have
/// no entry here.
struct Probabilities {
  explicit Probabilities(const Case& one) : shape(one.problem.shape) {
    const core::Shape& s = shape;
    const AttentionCase numbers = one.numbers();
    const kernels::ReferencePattern pattern = numbers.pattern;
    const kernels::ReferenceResult forward = numbers.reference();
    const Index n = s.sequence, D = s.head_dim;
    p.resize(std::size_t(s.batch * s.heads * n * n));
    entropy.resize(std::size_t(s.batch * n * s.heads));
    received.resize(entropy.size());
    lse = forward.lse;
    const auto q = numbers.q(), k = numbers.k();
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index x = 0; x < n; ++x) {
          const core::Interval document = kernels::document_of(pattern, n, x);
          const std::size_t at = std::size_t((b * n + x) * s.heads + h);
          double mean = 0;  // mean of the scores
          for (Index y = document.begin; y < document.end; ++y) {
            const Index times = kernels::multiplicity(pattern, s.heads, h, x, y, document);
            if (times == 0) continue;
            double score = 0;
            for (Index d = 0; d < D; ++d) {
              score += q[std::size_t(Index(at) * D + d)] *
                       k[std::size_t(((b * n + y) * s.kv_heads + h / s.group()) * D + d)];
            }
            score = kernels::score_of(pattern, h, x, y, document, one.problem.scale * score).value;
            const double weight = double(times) * std::exp(score - lse[at]);
            p[index(b, h, x, y)] = weight;
            received[std::size_t((b * n + y) * s.heads + h)] += weight;
            mean += weight * score;
          }
          const double sink = one.problem.sink ? Case::sink_of(h) : 0, weight = std::exp(sink - lse[at]);
          if (one.problem.sink && !std::isinf(sink)) mean += weight * sink;
          entropy[at] = std::isinf(lse[at]) ? 0 : lse[at] - mean;
        }
      }
    }
  }

  std::size_t index(Index b, Index h, Index x, Index y) const {
    return std::size_t(((b * shape.heads + h) * shape.sequence + x) * shape.sequence + y);
  }

  core::Shape shape;
  std::vector<double> p, lse, entropy, received;
};

struct Lists {
  std::vector<Index> rows;
  std::vector<double> weights;
};

/// Checks that lists of the rank's rows (B, rows, H, k) have the largest weights of the definition, up to rounding.
void expect_largest(const Probabilities& truth, const Problem& problem, const std::vector<Index>& own,
                    const Lists& found, double tolerance) {
  const core::Shape& s = problem.shape;
  const Index k = problem.statistics.top_keys;
  ASSERT_EQ(Index(found.rows.size()), s.batch * Index(own.size()) * s.heads * k);
  std::size_t at = 0;
  for (Index b = 0; b < s.batch; ++b) {
    for (const Index x : own) {
      for (Index h = 0; h < s.heads; ++h, at += std::size_t(k)) {
        const auto first = truth.p.begin() + Index(truth.index(b, h, x, 0));
        std::vector<double> largest(first, first + s.sequence);
        std::sort(largest.begin(), largest.end(), std::greater<>());
        largest.resize(std::size_t(std::max(k, s.sequence)));  // padded with zeros
        std::set<Index> listed;
        for (Index i = 0; i < k; ++i) {
          const Index row = found.rows[at + std::size_t(i)];
          const double weight = found.weights[at + std::size_t(i)];
          SCOPED_TRACE(fmt::format("[{}, {}, {}], entry {}: row {}, weight {}", b, x, h, i, row, weight));
          ASSERT_NEAR(weight, largest[std::size_t(i)], tolerance);
          ASSERT_EQ(row == -1, weight == 0);
          if (row == -1) continue;
          ASSERT_TRUE(row >= 0 && row < s.sequence && listed.insert(row).second);
          ASSERT_NEAR(weight, first[row], tolerance);
          if (i == 0) continue;
          const double before = found.weights[at + std::size_t(i) - 1];
          ASSERT_TRUE(before > weight || (before == weight && found.rows[at + std::size_t(i) - 1] < row)) << before;
        }
      }
    }
  }
}

std::vector<Index> indices(const core::Buffer& buffer) {
  std::vector<Index> numbers(std::size_t(buffer.bytes()) / sizeof(Index));
  core::copy_to_host(numbers.data(), buffer.data(), buffer.bytes());
  return numbers;
}

void check_statistics(const Strategy& strategy, const Case& one, const Probabilities& truth,
                      const comm::Communicator& comm) {
  SCOPED_TRACE(fmt::format("{}, {}{}", strategy.name(), one.name, one.problem.reproducible ? ", reproducible" : ""));
  const Problem& problem = one.problem;
  const core::Shape& s = problem.shape;
  const core::DType type = core::lse_type(problem.type);
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = take_tensors(one.numbers(), problem, rows);
  {
    const Prediction predicted = strategy.predict(problem, partition, comm.rank());
    const Spending spending;
    spending.expect(strategy.forward(problem, partition, comm, tensors, {}), predicted, rows, comm);
  }
  const auto schedule = strategy.statistics_schedule(problem, partition);
  {
    const Prediction predicted = schedule->predict(comm.rank());
    const Spending spending;
    spending.expect(run_statistics_pass(*schedule, comm, tensors, {}), predicted, rows, comm);
  }
  const auto own = [&](const std::vector<double>& whole) {
    return test::take_rows(whole, s.batch, s.sequence, rows.intervals());
  };
  const Index numbers = s.batch * rows.count() * s.heads;
  // Statistics are made from sums and are never stored in 16 bits, whatever type the tensors have.
  const double tolerance = std::max(core::forward_tolerance(problem.precision), core::forward_tolerance(type));
  // The entropy is the difference of two numbers that are as large as the LSE.
  double largest = 1;
  for (const double lse : truth.lse) largest = std::max(largest, std::isinf(lse) ? 0 : std::abs(lse));
  EXPECT_TRUE(
      test::close_to(test::from_device(tensors.entropy, numbers, type), own(truth.entropy), tolerance * largest))
      << "entropy";
  EXPECT_TRUE(test::close_to(test::from_device(tensors.received, numbers, core::DType::float64), own(truth.received),
                             tolerance))
      << "received";
  std::vector<Index> rows_held;
  for (const core::Interval& interval : rows.intervals()) {
    for (Index x = interval.begin; x < interval.end; ++x) rows_held.push_back(x);
  }
  const Index k = problem.statistics.top_keys;
  expect_largest(truth, problem, rows_held,
                 {indices(tensors.top_rows), test::from_device(tensors.top_weights, numbers * k, type)}, tolerance);
}

void check_all(const std::vector<Case>& cases, bool reproducible = false) {
  const int ranks = comm::Communicator(MPI_COMM_WORLD).size();
  Index keys = 1;
  for (Case one : cases) {
    one.problem.statistics = {true, true, keys};
    one.problem.reproducible = reproducible;
    keys = keys % 7 + 1;
    const Probabilities truth(one);
    for_every_strategy({one}, ranks > 2 ? 6 : 1,
                       [&](const Strategy& strategy, const Case& cut, const comm::Communicator& comm) {
                         if (!why_not_reproducible(strategy, cut.problem, comm.size()).empty()) return;
                         check_statistics(strategy, cut, truth, comm);
                       });
  }
}

TEST(Statistics, SemanticsCausalDocumentsAndGroupedHeads) { check_all(semantics_cases()); }

TEST(Statistics, AwkwardShapes) { check_all(awkward_cases()); }

TEST(Statistics, Windows) { check_all(window_cases()); }

TEST(Statistics, EveryStorageType) { check_all(storage_cases()); }

TEST(Statistics, DeviceTilesServeEveryStrategyToo) { check_all(device_cases()); }

TEST(Statistics, Sinks) { check_all(sink_cases()); }
TEST(Statistics, RulesOfScores) { check_all(rule_cases()); }

TEST(Statistics, ValuesOfAnotherSize) { check_all(value_cases()); }

TEST(Statistics, RandomSettings) { check_all(random_cases()); }

TEST(StatisticsInOrder, SemanticsCausalDocumentsAndGroupedHeads) { check_all(semantics_cases(), true); }

TEST(StatisticsInOrder, AwkwardShapes) { check_all(awkward_cases(), true); }

TEST(StatisticsInOrder, Windows) { check_all(window_cases(), true); }

TEST(StatisticsInOrder, DeviceTilesServeEveryStrategyToo) { check_all(device_cases(), true); }

/// Top keys without `received` need no sums over queries: with any partition the lists are the same.
TEST(StatisticsInOrder, ListsAloneGoWithEveryPartition) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  Case one =
      make_case("lists alone", {1, 90, 4, 2, 8},
                {pattern::Semantics::longnet, {{16, 1}, {pattern::whole_document, 3}}, true, false}, {0, 20, 90});
  one.problem.statistics = {false, false, 5};
  one.problem.reproducible = true;
  const auto lists_of = [&](const Strategy& strategy, const Problem& problem, const comm::Communicator& ranks,
                            const pattern::Partition& partition) {
    const pattern::StoredRows& rows = partition[std::size_t(ranks.rank())];
    Tensors tensors = take_tensors(one.numbers(), problem, rows);
    strategy.forward(problem, partition, ranks, tensors, {});
    run_statistics_pass(*strategy.statistics_schedule(problem, partition), ranks, tensors, {});
    return indices(tensors.top_rows);
  };
  const std::vector<Index> alone = lists_of(*find("single"), one.problem, comm::Communicator(MPI_COMM_SELF),
                                            pattern::root_partition(one.problem.shape.sequence, 1));
  const Index row_numbers = one.problem.shape.heads * one.problem.statistics.top_keys;
  for_every_strategy({one}, 1, [&](const Strategy& strategy, const Case& cut, const comm::Communicator& ranks) {
    if (!why_not_reproducible(strategy, cut.problem, ranks.size()).empty()) return;
    SCOPED_TRACE(fmt::format("{}, {}", strategy.name(), cut.name));
    const pattern::Partition partition = strategy.partition(cut.problem, ranks.size());
    std::vector<Index> expected;
    for (const core::Interval& rows : partition[std::size_t(ranks.rank())].intervals()) {
      expected.insert(expected.end(), alone.begin() + rows.begin * row_numbers, alone.begin() + rows.end * row_numbers);
    }
    EXPECT_EQ(lists_of(strategy, cut.problem, ranks, partition), expected);
  });
}

TEST(StatisticsInOrder, ListsAloneSendNoSumsToWindows) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Strategy& strategy = *find("onesided");
  ASSERT_EQ(strategy.unavailable(), "");
  Case one = make_case("lists alone", {1, 90, 4, 2, 8},
                       {pattern::Semantics::longnet, {{16, 1}, {pattern::whole_document, 3}}, true, false});
  one.problem.statistics = {false, false, 5};
  one.problem.reproducible = true;
  one.problem.partition = pattern::PartitionKind::contiguous;
  ASSERT_EQ(why_not_reproducible(strategy, one.problem, comm.size()), "");
  const pattern::Partition partition = strategy.partition(one.problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
  strategy.forward(one.problem, partition, comm, tensors, {});
  const Prediction forward = strategy.predict(one.problem, partition, comm.rank());
  const auto schedule = strategy.statistics_schedule(one.problem, partition);
  const Prediction predicted = schedule->predict(comm.rank());
  EXPECT_EQ(predicted.bytes_sent, forward.bytes_sent) << "K and V alone";
  EXPECT_EQ(predicted.bytes_received, forward.bytes_received);
  EXPECT_EQ(schedule->sums()->window_bytes(comm.rank()), 0);
  const Spending spending;
  spending.expect(run_statistics_pass(*schedule, comm, tensors, {}), predicted, rows, comm);
}

/// All keys are equal. Among equal weights, the lists have those of the smallest rows, whichever rank has these rows
/// and whenever they arrive.
TEST(Statistics, TiesGoToTheSmallerRow) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  Case one = make_case("equal keys", {1, 200, 2, 1, 8},
                       {pattern::Semantics::longnet, {{50, 1}, {pattern::whole_document, 1}}, false, false});
  one.problem.statistics = {false, false, 5};
  for (const Strategy* strategy : available()) {
    SCOPED_TRACE(strategy->name());
    one.problem.ulysses_ranks = comm.size() % 2 == 0 ? 2 : 1;
    const pattern::Partition partition = strategy->partition(one.problem, comm.size());
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
    core::fill_zero(tensors.kv.data(), tensors.kv.bytes());
    strategy->forward(one.problem, partition, comm, tensors, {});
    run_statistics_pass(*strategy->statistics_schedule(one.problem, partition), comm, tensors, {});
    const std::vector<Index> found = indices(tensors.top_rows);
    std::size_t at = 0;
    for (const core::Interval& interval : rows.intervals()) {
      for (Index x = interval.begin; x < interval.end; ++x) {
        for (Index i = 0; i < 2 * 5; ++i) {  // rows in x's segment count twice
          ASSERT_EQ(found[at++], x / 50 * 50 + i % 5) << "row " << x;
        }
      }
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
