#include "annulus/kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace annulus::kernels {
namespace {

using core::Index;
using core::Interval;

/// One pair as one head sees it. If the pair has segments, it picks row y, counted from the document's start, if
/// (y mod segment) mod dilation is `offset`. If it has a window, it picks all rows.
struct PairOfHead {
  Index segment;
  Index dilation;
  Index offset;
  std::optional<ReferenceWindow> window;

  bool picks(Index y) const { return window || y % segment % dilation == offset; }
  /// True if row x sees row p, unless a causal mask hides p. Both are counted from their document's start.
  bool shows(Index x, Index p) const {
    if (!window) return x / segment == p / segment && picks(x) && picks(p);
    if ((window->mirrored ? x : p) < window->first) return true;
    const Index steps = (x - p) / dilation;
    return (x - p) % dilation == 0 && -window->right <= steps && steps <= window->left;
  }
  /// With a window, row x sees all rows of first_of(), and of the range window_of() it sees the first row and every
  /// `dilation`-th row after that.
  Interval window_of(Index x, Index rows) const {
    return {x - std::min(window->left, x / dilation) * dilation,
            x + std::min(window->right, (rows - 1 - x) / dilation) * dilation + 1};
  }
  Interval first_of(Index x, Index rows) const {
    if (window->mirrored) return {0, x < window->first ? rows : 0};
    return {0, std::min(window->first, rows)};
  }
};

/// The `grouped` semantics cuts H heads into G consecutive groups, the first H mod G of which have one head more.
/// Example: H = 7, G = 3 gives heads 0 1 2 | 3 4 | 5 6.
bool in_group(Index head, Index heads, Index groups, Index group) {
  Index first = 0;
  for (Index g = 0; g < group; ++g) first += heads / groups + (g < heads % groups ? 1 : 0);
  const Index size = heads / groups + (group < heads % groups ? 1 : 0);
  return first <= head && head < first + size;
}

Index offset_of(ReferenceSemantics semantics, Index pair, Index dilation, Index heads, Index head) {
  switch (semantics) {
    case ReferenceSemantics::longnet:
    case ReferenceSemantics::torchscale:
      return head / core::ceil_div(heads, dilation);
    case ReferenceSemantics::paper:
      return head % dilation;
    case ReferenceSemantics::grouped:
      return pair % dilation;
  }
  return 0;
}

/// Calls visit(PairOfHead) for every pair of the pattern in which head `head` takes part.
template <class Visit>
void for_each_pair(const ReferencePattern& pattern, Index heads, Index head, Interval document, Visit&& visit) {
  const Index count = Index(pattern.pairs.size());
  for (Index i = 0; i < count; ++i) {
    if (pattern.semantics == ReferenceSemantics::grouped && !in_group(head, heads, count, i)) continue;
    const ReferencePair pair = pattern.pairs[i];
    const Index segment = pair.segment <= 0 ? document.size() : pair.segment;
    visit(PairOfHead{segment, pair.dilation, offset_of(pattern.semantics, i, pair.dilation, heads, head), pair.window});
  }
}

}  // namespace

ReferencePattern mirrored(ReferencePattern pattern) {
  pattern.causal = false;
  for (ReferencePair& pair : pattern.pairs) {
    if (!pair.window) continue;
    std::swap(pair.window->left, pair.window->right);
    pair.window->mirrored = !pair.window->mirrored;
  }
  return pattern;
}

Interval document_of(const ReferencePattern& pattern, Index sequence, Index x) {
  if (pattern.documents.empty()) return {0, sequence};
  // The first offset after x is the end of x's document. upper_bound() skips empty documents (equal offsets).
  const auto end = std::upper_bound(pattern.documents.begin(), pattern.documents.end(), x);
  const Index number = Index(end - pattern.documents.begin()) - 1;
  if (std::binary_search(pattern.gaps.begin(), pattern.gaps.end(), number)) return {x, x};
  return {*(end - 1), *end};
}

Index multiplicity(const ReferencePattern& pattern, Index heads, Index head, Index x, Index p, Interval document) {
  if (p < document.begin || p >= document.end) return 0;
  if (pattern.causal && p > x) return 0;
  const Index query = x - document.begin;
  const Index key = p - document.begin;
  Index pairs = 0;
  for_each_pair(pattern, heads, head, document, [&](const PairOfHead& pair) {
    if (pair.shows(query, key)) ++pairs;
  });
  return pairs;
}

Index filled_in(const ReferencePattern& pattern, Index heads, Index head, Index x, Interval document) {
  if (pattern.semantics != ReferenceSemantics::torchscale || pattern.causal || document.empty()) return 0;
  const Index query = x - document.begin, rows = document.size();
  Index filled = 0;
  for_each_pair(pattern, heads, head, document, [&](const PairOfHead& pair) {
    if (pair.window || !pair.picks(query)) return;
    const Index length = std::min(pair.segment, rows);
    const Index first = query / length * length, end = std::min(first + length, rows);
    // Counts the slots of the padded segment in which the head finds no row.
    for (Index begin = 0; begin < length; begin += pair.dilation) {
      if (first + begin + pair.offset >= end) ++filled;
    }
  });
  return filled;
}

Interval key_range(const ReferencePattern& pattern, Index sequence, Index heads, Index head, Index x) {
  const Interval document = document_of(pattern, sequence, x);
  const Index query = x - document.begin;
  Interval hull{x, x};
  if (document.empty()) return hull;
  for_each_pair(pattern, heads, head, document, [&](const PairOfHead& pair) {
    if (!pair.picks(query)) return;
    // The two loops below search inwards from both ends of the segment (or window). They end, because x is picked.
    Index first = query / pair.segment * pair.segment;
    Index last = pattern.causal ? query : std::min(first + pair.segment, document.size()) - 1;
    if (pair.window) {
      const Interval window = pair.window_of(query, document.size()), some = pair.first_of(query, document.size());
      first = some.empty() ? window.begin : 0;
      last = std::min(last, std::max(some.end, window.end) - 1);
    }
    while (!pair.picks(first)) ++first;
    while (!pair.picks(last)) --last;
    hull = {std::min(hull.begin, document.begin + first), std::max(hull.end, document.begin + last + 1)};
  });
  return hull;
}

std::vector<RowRun> key_runs(const ReferencePattern& pattern, Index sequence, Index heads, Index head, Index x) {
  const Interval document = document_of(pattern, sequence, x);
  const Index query = x - document.begin;
  std::vector<RowRun> runs;
  if (document.empty()) return runs;
  for_each_pair(pattern, heads, head, document, [&](const PairOfHead& pair) {
    if (!pair.picks(query)) return;
    const Index begin = query / pair.segment * pair.segment;
    const Index end = pattern.causal ? query + 1 : std::min(begin + pair.segment, document.size());
    if (!pair.window) {
      runs.push_back({document.begin + begin + pair.offset, document.begin + end, pair.dilation});
      return;
    }
    const Interval window = pair.window_of(query, document.size()), some = pair.first_of(query, document.size());
    if (!some.empty()) runs.push_back({document.begin, document.begin + std::min(some.end, end), 1});
    runs.push_back({document.begin + window.begin, document.begin + std::min(window.end, end), pair.dilation});
  });
  return runs;
}

double distance(const ReferencePattern& pattern, Index x, Index p, Interval document) {
  if (x - document.begin < pattern.exempt || p - document.begin < pattern.exempt) return 0;
  if (pattern.coordinates.empty()) return double(std::abs(x - p));
  const auto along = [&](Index axis) {
    return pattern.coordinates.at(std::size_t(2 * x + axis)) - pattern.coordinates.at(std::size_t(2 * p + axis));
  };
  return std::hypot(along(0), along(1));
}

ReferenceScore score_of(const ReferencePattern& pattern, Index head, Index x, Index p, Interval document,
                        double product) {
  ReferenceScore score{product, 1};
  if (pattern.softcap > 0) {
    const double bent = std::tanh(product / pattern.softcap);
    score = {pattern.softcap * bent, 1 - bent * bent};
  }
  if (!pattern.slopes.empty()) score.value -= pattern.slopes.at(std::size_t(head)) * distance(pattern, x, p, document);
  return score;
}

ReferenceRow::ReferenceRow(const ReferencePattern& pattern, const core::Shape& shape, Index head, Index x,
                           std::span<const double> q)
    : pattern_(pattern),
      heads_(shape.heads),
      head_(head),
      x_(x),
      document_(document_of(pattern, shape.sequence, x)),
      q_(q.begin(), q.end()),
      max_(-std::numeric_limits<double>::infinity()),
      acc_(std::size_t(shape.dim_of_values()), 0.0) {
  const Index filled = filled_in(pattern, heads_, head, x, document_);
  if (filled == 0) return;
  max_ = 0;
  sum_ = double(filled);
}

void ReferenceRow::add(Index p, std::span<const double> k, std::span<const double> v) {
  const Index times = multiplicity(pattern_, heads_, head_, x_, p, document_);
  if (times == 0) return;
  double product = 0;
  for (std::size_t d = 0; d < q_.size(); ++d) product += q_[d] * k[d];
  const double score = score_of(pattern_, head_, x_, p, document_, pattern_.scale * product).value;
  if (score > max_) {  // at the first key max_ is -inf, so shrink is 0 and the sums, which are 0, stay 0
    const double shrink = std::exp(max_ - score);
    sum_ *= shrink;
    scores_ *= shrink;
    for (double& a : acc_) a *= shrink;
    max_ = score;
  }
  const double weight = double(times) * std::exp(score - max_);
  sum_ += weight;
  scores_ += weight * score;
  for (std::size_t d = 0; d < acc_.size(); ++d) acc_[d] += weight * v[d];
}

ReferenceRow::Totals ReferenceRow::totals() const {
  const double sink = pattern_.sink.empty() ? -std::numeric_limits<double>::infinity() : pattern_.sink.at(head_);
  if (sum_ == 0 || std::isinf(sink)) return {max_, sum_, scores_, 1};
  const double largest = std::max(max_, sink), shrink = std::exp(max_ - largest), weight = std::exp(sink - largest);
  return {largest, shrink * sum_ + weight, shrink * scores_ + weight * sink, shrink};
}

void ReferenceRow::finish(std::span<double> out, double& lse) const {
  if (sum_ == 0) {
    std::fill(out.begin(), out.end(), 0.0);
    lse = -std::numeric_limits<double>::infinity();
    return;
  }
  const Totals all = totals();
  const double divisor = all.sum * (pattern_.group_scale ? double(pattern_.pairs.size()) : 1.0);
  for (std::size_t d = 0; d < acc_.size(); ++d) out[d] = all.shrink * acc_[d] / divisor;
  lse = all.max + std::log(all.sum);
}

double ReferenceRow::entropy() const {
  const Totals all = totals();
  return sum_ == 0 ? 0 : all.max + std::log(all.sum) - all.scores / all.sum;
}

}  // namespace annulus::kernels
