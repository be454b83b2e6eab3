#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <map>

#include "annulus/core/print.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/store/row_reading.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::verify {

bool Findings::good() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.good(); });
}

double allowed_forward(const VerifyInput& input, core::DType stored, double scores) {
  using core::forward_tolerance;
  return std::max(
      {forward_tolerance(input.type), forward_tolerance(input.precision, scores), forward_tolerance(stored)});
}

double allowed_gradient(const VerifyInput& input, core::DType stored, double scores) {
  using core::gradient_tolerance;
  return std::max(
      {gradient_tolerance(input.type), gradient_tolerance(input.precision, scores), gradient_tolerance(stored)});
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A key whose weight P is below this number may be missing from a list of top keys that is not full, because the run
/// may have rounded P to 0, either in the type of the computation or in the type in which the result is stored.
double negligible(const VerifyInput& input) {
  const bool narrow = input.precision != core::Precision::float64 || core::lse_type(input.type) == core::DType::float32;
  return 100 * (narrow ? double(FLT_MIN) : DBL_MIN);
}

/// A result's list for one query x: the k keys p with the largest P(x, p). Compares the list with the definition.
class TopList {
 public:
  /// `rows` (k) are the keys in the list, where -1 is an empty entry. `weights` (k) are P of these keys.
  TopList(std::span<const double> rows, std::span<const double> weights)
      : rows_(rows.begin(), rows.end()), weights_(weights.begin(), weights.end()), expected_(rows.size()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] == -1) continue;
      const bool is_new = entries_.emplace(rows_[i], i).second;
      is_list_ = is_list_ && is_new && i == listed_;
      ++listed_;
    }
  }

  /// Notes that P of key p is `weight` by the definition. Call this function once for each key that the query sees.
  void offer(Index p, double weight) {
    if (const auto entry = entries_.find(double(p)); entry != entries_.end()) {
      expected_[entry->second] = weight;
    } else {
      unlisted_ = std::max(unlisted_, weight);
    }
  }

  /// Adds the list's errors to `rows` and `weights`; `index(i)` is the index of entry i in the file.
  /// rows     how much P of an unlisted key exceeds the last listed weight. The error is infinite if the list names a
  ///          key twice or a key that the query does not see, if keys of equal weight (in the list and by the
  ///          definition) do not ascend, or if a key comes after an empty entry. It is also infinite if the list has
  ///          empty entries although P of an unlisted key is above `unlisted_allowed`
  /// weights  how much the listed weights differ from P of their keys, and how much a weight exceeds the one before it
  template <class IndexText>
  void compare(Deviation& rows, Deviation& weights, double unlisted_allowed, IndexText&& index) const {
    bool good = is_list_;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto entry_index = [&] { return index(i); };
      weights.compare(weights_[i], expected_[i], entry_index);
      if (i > 0) weights.compare(std::max(weights_[i], weights_[i - 1]), weights_[i - 1], entry_index);
      good = good && (i >= listed_ || expected_[i] > 0);
      const bool tie = i > 0 && i < listed_ && weights_[i] == weights_[i - 1] && expected_[i] == expected_[i - 1];
      good = good && !(tie && rows_[i] < rows_[i - 1]);
    }
    const bool full = listed_ == rows_.size();
    good = good && (full || unlisted_ <= unlisted_allowed);
    const double last = full ? weights_.back() : 0;
    rows.compare(good ? last : infinity, good ? std::max(last, unlisted_) : last,
                 [&] { return index(listed_ == 0 ? 0 : listed_ - 1); });
  }

 private:
  Numbers rows_, weights_, expected_;
  std::map<double, std::size_t> entries_;  // key row -> index of the list's entry with this row
  std::size_t listed_ = 0;
  bool is_list_ = true;  // no row occurs twice, and no row follows an empty entry
  double unlisted_ = 0;  // largest P of the rows that are not listed
};

void compare_top(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows, Index top_keys,
                 Deviations& all) {
  const auto k = std::size_t(top_keys);
  RowReader found_rows(result, "top_rows"), found_weights(result, "top_weights");
  std::vector<TopList> lists;
  for (const QueryRow& row : rows) {
    const std::size_t at = std::size_t(row.b * input.shape.heads + row.h) * k;
    lists.emplace_back(std::span(found_rows.row(row.x)).subspan(at, k),
                       std::span(found_weights.row(row.x)).subspan(at, k));
  }
  for_each_key(input, rows, [&](std::size_t i, Index p, auto key, auto) {
    lists[i].offer(p, probability(input, rows[i].h, rows[i].x, p, rows[i].q, key, rows[i].lse).p);
  });
  Deviation &of_rows = all["top_rows"], &of_weights = all["top_weights"];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    of_weights.scores = std::max(of_weights.scores, score_size(input, rows[i].h, rows[i].lse));
    lists[i].compare(of_rows, of_weights, negligible(input), [&](std::size_t entry) {
      return input.index_text(rows[i].b, rows[i].x, rows[i].h, Index(entry));
    });
  }
  of_rows.scores = of_weights.scores;
}

Numbers read_dsink(const store::InspectedFile& file, const comm::Communicator& comm) {
  const store::DatasetInfo& info = file.at("dsink");
  const core::Rectangle all{{0, info.extents.at(0)}, {0, 1}};
  std::vector<std::byte> numbers(std::size_t(all.count()) * bytes_of(info.type));
  comm::agree(comm, [&] {
    store::read_part(file, {"dsink", all, all, numbers.data()}, store::Wanted::present_numbers);
  });
  return to_double(numbers, info.type);
}

double tolerance_of(const std::string& dataset, const VerifyInput& input, const Sample& sample, double scores) {
  const auto gradient = [&](const char* name) {
    return allowed_gradient(input, sample.stored(name, input.type), scores);
  };
  if (dataset == "out" || dataset == "lse") return allowed_forward(input, sample.stored(dataset, input.type), scores);
  // compare_dsink() reads `out` from the result, so the expected dsink is only as accurate as the stored `out`.
  if (dataset == "dsink") return std::max(gradient("dsink"), gradient("out"));
  if (dataset == "dq" || dataset == "dk" || dataset == "dv") return gradient(dataset.c_str());
  // Statistics are never stored in 16 bits, whatever type the tensors have.
  const core::DType stored = sample.stored(dataset, core::type_of(input.precision));
  return std::max(core::forward_tolerance(input.precision, scores), core::forward_tolerance(stored));
}

}  // namespace

Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm) {
  const SampledRows rows = sample_rows(input, sample.rows);
  const std::vector<Index> mine = own_share(rows.queries, comm.rank(), comm.size());
  const std::vector<Index> my_keys = own_share(rows.keys, comm.rank(), comm.size());
  const strategies::Statistics& asked = sample.statistics;  // the statistics that the result has
  const KeySums sums{sample.gradients, asked.received};
  const bool has_sums = sums.gradients || sums.received;
  const bool recompute = has_sums && comm.max(Index(!can_recompute_viewers(input, my_keys))) == 0;
  const bool checks_sums = has_sums && (recompute || sample.file != nullptr);
  Deviations all;
  const auto shown = [&](double from, double to, const char* what) -> ShareShown {
    return [&, from, to, what](double share) {
      if (sample.progress) sample.progress(from + (to - from) * share, what);
    };
  };
  comm::agree(comm, [&] {
    const double half = checks_sums ? 0.5 : 1;  // progress assumes that compare_keys() is half of the work
    const std::vector<QueryRow> queries = recompute_rows(input, mine, shown(0, half, "out and lse"));
    compare_forward(input, sample.result, queries, asked.entropy, all);
    if (asked.top_keys > 0) compare_top(input, sample.result, queries, asked.top_keys, all);
    if (sums.gradients) compare_dq(input, sample.result, queries, all);
    if (checks_sums)
      compare_keys(input, sample.result, my_keys, sums, recompute, all, shown(half, 1, "sums over queries"));
  });
  if (sums.gradients && sample.file != nullptr && !input.pattern.sink.empty())
    all["dsink"] = compare_dsink(input, sample.result, read_dsink(*sample.file, comm), comm);

  const core::Shape& s = input.shape;
  Findings findings;
  const std::string of_queries = input.queries == s.sequence ? "rows"
                                 : has_sums ? fmt::format("queries and {} of {} keys", rows.keys.size(), s.sequence)
                                            : "queries";
  findings.scope = fmt::format("the definition in float64: {} of {} {}, all {}, {}", rows.queries.size(), input.queries,
                               of_queries, core::how_many(s.heads, "head"), core::how_many(s.batch, "batch entry"));
  for (const char* name : {"out", "lse", "entropy", "top_rows", "top_weights", "dq", "dsink", "dk", "dv", "received"}) {
    const auto found = all.find(name);
    if (found == all.end()) continue;
    const Deviation deviation = found->second.merged(comm);
    findings.verdicts.push_back({name, tolerance_of(name, input, sample, deviation.scores), deviation});
  }
  if (!has_sums) return findings;
  const char* const names = !sums.gradients ? "received" : sums.received ? "dk, dv, received" : "dk, dv";
  const char* const how = !checks_sums ? " not checked: to recompute the queries that see these keys is too much work"
                          : recompute  ? ": lse and out of the queries that see these keys recomputed, too"
                                       : ": lse and out of the queries that see these keys taken from the result; to "
                                         "recompute them is too much work";
  findings.notes = {std::string(names) + how};
  return findings;
}

}  // namespace annulus::verify
