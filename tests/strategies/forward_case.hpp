// Runs a case with a strategy on all ranks, and compares results with the float64 definition. Each rank checks its own
// rows of out and lse, and the cost that the strategy predicted.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "annulus/core/memory.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/strategies/strategy.hpp"
#include "support/attention_case.hpp"
#include "support/random_layout.hpp"
#include "support/tolerance.hpp"

namespace annulus::strategies {

using test::AttentionCase;

/// A problem for strategies; numbers() returns the same problem with inputs, for the float64 reference.
struct Case {
  std::string name;
  Problem problem;
  std::uint64_t seed = 1;

  AttentionCase numbers() const {
    kernels::ReferencePattern pattern = test::reference_pattern(problem.layout(), problem.scale);
    for (Index h = 0; problem.sink && h < problem.shape.heads; ++h) pattern.sink.push_back(sink_of(h));
    pattern.softcap = problem.rule.cap;
    pattern.slopes = problem.rule.slopes;
    pattern.exempt = problem.rule.exempt;
    if (problem.rule.coordinates) pattern.coordinates = problem.rule.coordinates->numbers();
    return {problem.shape, pattern, problem.type, seed, 1};
  }
  /// A head's sink logit: below, among or above the scores, or -infinity (no sink).
  static double sink_of(Index head) {
    return std::array{0.5, 3.25, -std::numeric_limits<double>::infinity(), -6.0, 25.0}[std::size_t(head % 5)];
  }
};

inline Case make_case(const std::string& name, core::Shape shape, pattern::Pattern pattern,
                      pattern::Documents documents = {}, core::DType type = core::DType::float32) {
  Case made{name, {}, 1};
  made.problem.shape = shape;
  made.problem.type = type;
  made.problem.precision = core::default_precision(type);
  made.problem.scale = 1 / std::sqrt(double(shape.head_dim));
  made.problem.pattern = std::move(pattern);
  made.problem.documents = documents.empty() ? pattern::Documents{0, shape.sequence} : std::move(documents);
  made.problem.backend = kernels::default_backend();
  return made;
}

/// Returns a (B, S, ...) tensor with NaN in all rows of gaps; no result may contain these NaN.
inline std::vector<double> with_gaps(std::vector<double> whole, const Problem& problem) {
  const core::Shape& s = problem.shape;
  const auto row = whole.size() / std::size_t(s.batch * s.sequence);
  for (const core::Interval& gap : pattern::in_gaps(problem.documents, {0, s.sequence})) {
    for (Index b = 0; b < s.batch; ++b) {
      std::fill_n(whole.begin() + (b * s.sequence + gap.begin) * Index(row), gap.size() * Index(row), std::nan(""));
    }
  }
  return whole;
}

/// Joins rows of K and V to the layout of Tensors::kv.
inline std::vector<std::byte> kv_of(const Problem& problem, const std::vector<std::byte>& k,
                                    const std::vector<std::byte>& v) {
  std::vector<std::byte> all;
  const auto append = [&](const std::vector<std::byte>& from, Index row, Index bytes) {
    all.insert(all.end(), from.begin() + row * bytes, from.begin() + (row + 1) * bytes);
  };
  const Index parts = problem.shape.has_value_dim() ? Index(k.size()) / problem.head_row_bytes() : 1;
  for (Index i = 0; i < parts; ++i) {
    append(k, i, Index(k.size()) / std::max<Index>(1, parts));
    append(v, i, Index(v.size()) / std::max<Index>(1, parts));
  }
  return all;
}

/// dK (which = 0) or dV (which = 1) of `rows` rows, out of Tensors::dkv.
inline std::vector<std::byte> one_of_dkv(const Problem& problem, const std::vector<std::byte>& dkv, Index rows,
                                         Index which) {
  const auto middle = dkv.begin() + (dkv.empty() ? 0 : dk_bytes(problem, rows));
  return which == 0 ? std::vector<std::byte>(dkv.begin(), middle) : std::vector<std::byte>(middle, dkv.end());
}

/// The rank's rows of q, k and v, in the layout that strategies need.
inline Tensors take_tensors(const AttentionCase& numbers, const Problem& problem, const pattern::StoredRows& rows) {
  const core::Shape& s = problem.shape;
  const auto bytes = [&](const std::vector<double>& whole) {
    return test::to_storage(test::take_rows(with_gaps(whole, problem), s.batch, s.sequence, rows.intervals()),
                            problem.type);
  };
  const auto q = bytes(numbers.q()), kv = kv_of(problem, bytes(numbers.k()), bytes(numbers.v()));
  Tensors tensors{core::Buffer("q", Index(q.size())), core::Buffer("kv", Index(kv.size())), {}, {}};
  core::copy_to_device(tensors.q.data(), q.data(), Index(q.size()));
  core::copy_to_device(tensors.kv.data(), kv.data(), Index(kv.size()));
  tensors.sink = numbers.pattern.sink;
  return tensors;
}

/// Construct this before a pass. expect() compares the pass's memory, bytes and kept triples with the prediction.
class Spending {
 public:
  Spending() {
    kernels::device::release_kept_lists();  // they may hold an earlier case's coordinates
    core::memory_ledger().reset_peak();
    scratch_before_ = by_purpose("kernel scratch");
  }

  void expect(const core::RankMetrics& metrics, const Prediction& predicted, const pattern::StoredRows& rows,
              const comm::Communicator& comm) const {
    const core::HopMetrics total = metrics.total();
    // No time may count both as waiting and as computing.
    EXPECT_LE(total.wait_seconds + total.compute_seconds, (core::wall_seconds() - start_) * (1 + 1e-9));
    EXPECT_EQ(metrics.rows, rows.count());
    EXPECT_EQ(total.kept, predicted.kept);
    EXPECT_EQ(total.bytes_received, predicted.bytes_received);
    EXPECT_EQ(total.bytes_sent, predicted.bytes_sent);
    EXPECT_EQ(comm.sum(total.bytes_sent), comm.sum(total.bytes_received)) << "what is sent arrives";
    // Predictions include neither panels that threads keep from an earlier, larger case, nor work lists, nor copies
    // that are packed for NCCL.
    const Index others = scratch_before_ + by_purpose("work list") + by_purpose("packed messages");
    EXPECT_LE(core::memory_ledger().peak() - others, predicted.memory_bytes)
        << "more memory than was predicted; peaks by purpose:" << peaks();
  }

 private:
  static Index by_purpose(const char* purpose) { return core::memory_ledger().peak_by_purpose()[purpose]; }
  static std::string peaks() {
    std::string text;
    for (const auto& [purpose, bytes] : core::memory_ledger().peak_by_purpose())
      text += " " + purpose + " " + std::to_string(bytes);
    return text;
  }

  Index scratch_before_ = 0;  // bytes that the kernel's threads keep from earlier calls
  double start_ = core::wall_seconds();
};

inline void check(const Strategy& strategy, const Case& one, const comm::Communicator& comm) {
  SCOPED_TRACE(std::string(strategy.name()) + ", " + one.name);
  const core::Shape& s = one.problem.shape;
  const AttentionCase numbers = one.numbers();
  const kernels::ReferenceResult expected = numbers.reference();
  const pattern::Partition partition = strategy.partition(one.problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = take_tensors(numbers, one.problem, rows);
  const Prediction predicted = strategy.predict(one.problem, partition, comm.rank());
  const Spending spending;
  const core::RankMetrics metrics = strategy.forward(one.problem, partition, comm, tensors, {});
  spending.expect(metrics, predicted, rows, comm);

  const Index numbers_of_lse = s.batch * rows.count() * s.heads;
  const auto out = test::from_device(tensors.out, numbers_of_lse * s.dim_of_values(), one.problem.type);
  const auto lse = test::from_device(tensors.lse, numbers_of_lse, core::lse_type(one.problem.type));
  const double tolerance = core::forward_tolerance(one.problem.type);
  EXPECT_TRUE(test::close_to(out, test::take_rows(expected.out, s.batch, s.sequence, rows.intervals()), tolerance));
  EXPECT_TRUE(test::close_to(lse, test::take_rows(expected.lse, s.batch, s.sequence, rows.intervals()), tolerance));
}

}  // namespace annulus::strategies
