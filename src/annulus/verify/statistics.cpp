#include "annulus/verify/statistics.hpp"

#include <cfloat>
#include <map>

namespace annulus::verify {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// P below which a key may be left out of a list that has room: it may have been 0 in the type of computation, or in
/// that in which it is stored.
double negligible(const VerifyInput& input) {
  const bool narrow = input.precision != core::Precision::float64 || core::lse_type(input.type) == core::DType::float32;
  return 100 * (narrow ? double(FLT_MIN) : DBL_MIN);
}

/// One row's list of the result, and what the definition says of it.
class TopList {
 public:
  /// Rows (k), -1 where there is none, and weights (k).
  TopList(std::span<const double> rows, std::span<const double> weights)
      : rows_(rows.begin(), rows.end()), weights_(weights.begin(), weights.end()), expected_(rows.size()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] == -1) continue;
      const bool is_new = places_.emplace(rows_[i], i).second;
      is_list_ = is_list_ && is_new && i == listed_;
      ++listed_;
    }
  }

  /// The definition's P of key row p; each row that the query sees is offered once.
  void offer(Index p, double weight) {
    if (const auto place = places_.find(double(p)); place != places_.end()) {
      expected_[place->second] = weight;
    } else {
      unlisted_ = std::max(unlisted_, weight);
    }
  }

  /// `index(i)` is where entry i stands in the file.
  template <class IndexText>
  void compare(TopDeviations& all, double unlisted_allowed, IndexText&& index) const {
    bool good = is_list_;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto here = [&] { return index(i); };
      all.weights.compare(weights_[i], expected_[i], here);
      if (i > 0) all.weights.compare(std::max(weights_[i], weights_[i - 1]), weights_[i - 1], here);
      good = good && (i >= listed_ || expected_[i] > 0);
      const bool tie = i > 0 && i < listed_ && weights_[i] == weights_[i - 1] && expected_[i] == expected_[i - 1];
      good = good && !(tie && rows_[i] < rows_[i - 1]);
    }
    const bool full = listed_ == rows_.size();
    good = good && (full || unlisted_ <= unlisted_allowed);
    const double last = full ? weights_.back() : 0;
    all.rows.compare(good ? last : infinity, good ? std::max(last, unlisted_) : last,
                     [&] { return index(listed_ == 0 ? 0 : listed_ - 1); });
  }

 private:
  Numbers rows_, weights_, expected_;
  std::map<double, std::size_t> places_;  // of the rows
  std::size_t listed_ = 0;
  bool is_list_ = true;  // rows once each, and none after the end
  double unlisted_ = 0;  // largest P of a row that is not listed
};

}  // namespace

Deviation compare_entropy(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows) {
  RowReader found(result, "entropy");
  Deviation entropy;
  for (const QueryRow& row : rows) {
    entropy.compare(found.row(row.x)[std::size_t(row.b * input.shape.heads + row.h)], row.entropy,
                    [&] { return input.index_text(row.b, row.x, row.h); });
    if (std::isfinite(row.lse)) entropy.reference = std::max(entropy.reference, std::abs(row.lse));
  }
  return entropy;
}

TopDeviations compare_top(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows,
                          Index top_keys) {
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
  TopDeviations all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lists[i].compare(all, negligible(input), [&](std::size_t entry) {
      return input.index_text(rows[i].b, rows[i].x, rows[i].h, Index(entry));
    });
  }
  return all;
}

}  // namespace annulus::verify
