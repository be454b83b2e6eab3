#include "annulus/pattern/traffic.hpp"

#include <algorithm>
#include <unordered_map>

#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/traffic_bound.hpp"

namespace annulus::pattern {
namespace {

using core::wrap;

constexpr std::size_t affordable_kinds = 2000;  // of owners evaluated one by one; some 0.1 ms each

/// Consumers [begin, end) that read the same of an owner. What the first one reads stands for all; where a rank is too
/// small to hold rows of every offset, what the first few read together.
struct Consumers {
  Index begin = 0;
  Index end = 0;
  StoredRows together;

  const StoredRows& rows(const Partition& partition) const {
    return together.count() > 0 ? together : partition[std::size_t(begin)];
  }
};

/// Sums of an owner's gradients that leave the consumers of a run in the order in which its rows reach them.
struct Leaving {
  Index inside = 0;  ///< rows that each but the last passes on to the next of the run
  Index onward = 0;  ///< that the last passes on to the next run
  Index home = 0;    ///< that the last sends to the owner
};

/// Rows that each consumer of a run receives from one owner, and what it does with their sums.
struct Sizes {
  Index direct = 0;
  Index ring = 0;
  Index both_ways = 0;
  Leaving ring_sums;
  Leaving both_ways_sums;
};

/// Sums over ranges of ranks: add() is O(1), values() runs once over all ranks.
class RankSums {
 public:
  explicit RankSums(Index ranks) : ranks_(ranks), steps_(std::size_t(ranks + 1)) {}

  /// Adds to ranks [begin, end), counted round the ring.
  void add(Index begin, Index end, Index value) {
    const Index first = wrap(begin, ranks_), last = first + (end - begin);
    step(first, value);
    step(std::min(last, ranks_), -value);
    if (last > ranks_) step(0, value), step(last - ranks_, -value);
  }
  std::vector<Index> values() const {
    std::vector<Index> sums(steps_.begin(), steps_.end() - 1);
    for (std::size_t p = 1; p < sums.size(); ++p) sums[p] += sums[p - 1];
    return sums;
  }

 private:
  void step(Index rank, Index value) { steps_[std::size_t(rank)] += value; }
  Index ranks_;
  std::vector<Index> steps_;
};

/// A Traffic being summed up.
struct Sums {
  RankSums received, sent, messages;
  Index largest = 0;

  explicit Sums(Index ranks) : received(ranks), sent(ranks), messages(ranks) {}
  void arrive(Index begin, Index end, Index rows) {
    if (begin == end) return;
    received.add(begin, end, rows);
    messages.add(begin, end, rows > 0 ? 1 : 0);
    largest = std::max(largest, rows);
  }
  /// The sums of owner q's rows leave the run [begin, end), which rows walk through in this direction.
  void leave(Index q, Index begin, Index end, Index direction, const Leaving& rows) {
    const Index last = direction > 0 ? end - 1 : begin;
    const Index shift = direction > 0 ? 0 : 1;
    sent.add(begin + shift, end - 1 + shift, rows.inside);
    arrive(begin + 1 - shift, end - shift, rows.inside);
    sent.add(last, last + 1, rows.onward + rows.home);
    arrive(last + direction, last + direction + 1, rows.onward);
    arrive(q, q + 1, rows.home);
  }
  Traffic traffic() const { return {received.values(), sent.values(), messages.values(), largest}; }
};

/// The segments of a pair that reach over an end of an owner's interval: the only ones other ranks can read.
std::vector<Interval> crossing(const Pair& pair, const Documents& documents, Interval rows) {
  const Interval first = segment_of(pair, documents, rows.begin);
  const Interval last = first.end >= rows.end ? first : segment_of(pair, documents, rows.end - 1);
  std::vector<Interval> segments;
  if (first.begin < rows.begin || first.end > rows.end) segments.push_back(first);
  if (last != first && last.end > rows.end) segments.push_back(last);
  return segments;
}

struct HashKey {
  std::size_t operator()(const std::vector<Index>& key) const {
    std::uint64_t hash = 1469598103934665603u;
    for (const Index value : key) hash = (hash ^ std::uint64_t(value)) * 1099511628211u;
    return std::size_t(hash ^ (hash >> 32));
  }
};

class Counter {
 public:
  Counter(const Layout& layout, const Partition& partition, CountedTraffic counted)
      : layout_(layout),
        counts_sums_(counted == CountedTraffic::rows_and_sums),
        pairs_(layout.used_pairs()),
        partition_(partition),
        ranks_(Index(partition.size())),
        direct_(ranks_),
        ring_(ranks_),
        both_ways_(ranks_),
        ring_sums_(ranks_),
        both_ways_sums_(ranks_) {
    for (Index p = 0; p < ranks_; ++p) {
      for (const Interval& rows : partition[std::size_t(p)].intervals()) places_.push_back({rows, p});
    }
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.rows.begin < b.rows.begin; });
    Index shortest = documents_end(), largest_stride = 1;
    for (const Place& place : places_) shortest = std::min(shortest, place.rows.size());
    for (Index i = pairs_.begin; i < pairs_.end; ++i) {
      const Pair& pair = layout.pattern.pairs[std::size_t(i)];
      const Index longest = pair.segment == whole_document ? documents_end() : pair.segment;
      largest_stride = std::max(largest_stride, std::min(pair.dilation, longest));
    }
    widen_ = core::ceil_div(largest_stride, std::max<Index>(1, shortest));
    if (widen_ > 1) basis_ = Basis::estimate;
  }

  TrafficCounts count() {
    for (Index q = 0; q < ranks_; ++q) {
      if (partition_[std::size_t(q)].count() > 0) add_owner(q);
    }
    return {direct_.traffic(),    ring_.traffic(),           both_ways_.traffic(),
            ring_sums_.traffic(), both_ways_sums_.traffic(), basis_};
  }

 private:
  struct Place {
    Interval rows;
    Index rank;
  };
  using Crossings = std::vector<std::vector<std::vector<Interval>>>;  // [interval][used pair]: segments

  Index documents_end() const { return layout_.documents.back(); }
  Index rank_of(Index row) const {
    const auto next = std::upper_bound(places_.begin(), places_.end(), row,
                                       [](Index r, const Place& place) { return r < place.rows.begin; });
    return (next - 1)->rank;
  }

  void add_owner(Index q) {
    const StoredRows& own = partition_[std::size_t(q)];
    Crossings crossings;
    bool any = false;
    for (const Interval& rows : own.intervals()) {
      crossings.emplace_back();
      for (Index i = pairs_.begin; i < pairs_.end; ++i) {
        crossings.back().push_back(crossing(layout_.pattern.pairs[std::size_t(i)], layout_.documents, rows));
        any = any || !crossings.back().back().empty();
      }
    }
    if (!any) return;  // all its segments lie inside
    const std::vector<Consumers> runs = runs_of(q, crossings);
    const std::vector<Sizes> sizes = sizes_of(q, runs, crossings);
    for (std::size_t i = 0; i < runs.size(); ++i) add_run(q, runs[i], sizes[i]);
  }

  /// The other ranks in the order in which the ring visits them.
  std::vector<Consumers> runs_of(Index q, const Crossings& crossings) const {
    std::vector<Index> cuts{0, q, q + 1, wrap(q + ranks_ / 2 + 1, ranks_), ranks_};
    for (const auto& pairs : crossings) {
      for (const auto& segments : pairs) {
        for (const Interval& segment : segments) {
          for (const Index rank : {rank_of(segment.begin), rank_of(segment.end - 1)}) {
            cuts.push_back(rank);
            cuts.push_back(rank + 1);
          }
        }
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Consumers> runs;
    std::size_t first = 0;  // place of the run behind q
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i] == q) {
        first = runs.size();
      } else {
        runs.push_back({cuts[i], cuts[i + 1], together(cuts[i], cuts[i + 1])});
      }
    }
    std::rotate(runs.begin(), runs.begin() + std::ptrdiff_t(first), runs.end());
    return runs;
  }

  /// Rows of as many ranks as it takes to hold rows of every offset; nothing where one suffices.
  StoredRows together(Index begin, Index end) const {
    if (widen_ == 1 || end - begin == 1) return {};
    std::vector<Interval> rows;
    for (Index p = begin; p < std::min(end, begin + widen_); ++p) {
      const auto& more = partition_[std::size_t(p)].intervals();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    std::sort(rows.begin(), rows.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::vector<Interval> joined;
    for (const Interval& interval : rows) {
      if (!joined.empty() && joined.back().end == interval.begin) {
        joined.back().end = interval.end;
      } else {
        joined.push_back(interval);
      }
    }
    return StoredRows(joined);
  }

  bool goes_up(Index q, const Consumers& run) const { return wrap(run.begin - q, ranks_) <= ranks_ / 2; }

  /// All that rows_read() looks at, relative to the owner: equal keys, equal sizes. `coarse` keeps only what crosses
  /// and who reads anything.
  std::vector<Index> key_of(Index q, const std::vector<Consumers>& runs, const Crossings& crossings,
                            bool coarse) const {
    std::vector<Index> key;
    const auto& own = partition_[std::size_t(q)].intervals();
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!coarse) key.push_back(own[i].size());
      for (std::size_t j = 0; j < crossings[i].size(); ++j) {
        const Index r = layout_.pattern.pairs[std::size_t(pairs_.begin) + j].dilation;
        key.push_back(Index(crossings[i][j].size()));
        for (const Interval& segment : crossings[i][j]) {
          if (!coarse)
            key.push_back(segment.begin < own[i].begin ? -1 - (own[i].begin - segment.begin) % r
                                                       : segment.begin - own[i].begin);
          if (!coarse) key.push_back(std::min(segment.end, own[i].end) - own[i].begin);
          for (const Consumers& run : runs) append_hits(segment, own[i], r, run.rows(partition_), coarse, key);
        }
      }
    }
    for (const Consumers& run : runs) key.push_back(goes_up(q, run));
    return key;
  }
  /// Which offsets of the segment have a row at the consumer: all (-1), or those in windows of less than r rows.
  void append_hits(Interval segment, Interval own, Index r, const StoredRows& consumer, bool coarse,
                   std::vector<Index>& key) const {
    const std::size_t mark = key.size();
    const Interval seen{layout_.pattern.causal ? std::max(segment.begin, own.end) : segment.begin, segment.end};
    for (std::size_t i = consumer.first_behind(seen.begin); i < consumer.intervals().size(); ++i) {
      const Interval held = core::intersect(consumer.intervals()[i], seen);
      if (consumer.intervals()[i].begin >= seen.end) break;
      if (held.size() >= r) {
        key.resize(mark);
        key.push_back(-1);
        return;
      }
      if (held.empty()) continue;
      key.push_back((held.begin - segment.begin) % r);
      key.push_back(held.size());
    }
    if (coarse && key.size() > mark) key.resize(mark + 1), key[mark] = -3;
    key.push_back(-2);  // ends the list
  }

  std::vector<Sizes> sizes_of(Index q, const std::vector<Consumers>& runs, const Crossings& crossings) {
    const std::vector<Index> key = key_of(q, runs, crossings, false);
    if (const auto known = kinds_.find(key); known != kinds_.end()) return known->second;
    const std::vector<Index> coarse = key_of(q, runs, crossings, true);
    const auto alike = coarse_kinds_.find(coarse);
    if (kinds_.size() >= affordable_kinds && alike != coarse_kinds_.end()) {
      basis_ = Basis::estimate;
      return alike->second;
    }
    std::vector<Sizes> sizes = evaluate(q, runs);
    coarse_kinds_[coarse] = sizes;
    return kinds_[key] = std::move(sizes);
  }

  /// The rule of plan.hpp itself: what a run reads, and what it must pass on, from the far end back.
  std::vector<Sizes> evaluate(Index q, const std::vector<Consumers>& runs) const {
    const StoredRows& own = partition_[std::size_t(q)];
    std::vector<Cargo> read;
    for (const Consumers& run : runs) read.push_back(rows_read(layout_, own, run.rows(partition_)));
    std::vector<Sizes> sizes(runs.size());
    std::vector<Cargo> ring(runs.size()), both_ways(runs.size());
    std::vector<std::size_t> round, up, down;  // runs in the order in which the rows reach them
    for (std::size_t i = 0; i < runs.size(); ++i) {
      round.push_back(i);
      if (goes_up(q, runs[i])) up.push_back(i);
      if (!goes_up(q, runs[i])) down.insert(down.begin(), i);
    }
    carry(read, round, ring);
    carry(read, up, both_ways);
    carry(read, down, both_ways);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      sizes[i].direct = head_rows(read[i]);
      sizes[i].ring = head_rows(ring[i]);
      sizes[i].both_ways = head_rows(both_ways[i]);
    }
    if (!counts_sums_) return sizes;
    let_leave(read, ring, round, &Sizes::ring_sums, sizes);
    let_leave(read, both_ways, up, &Sizes::both_ways_sums, sizes);
    let_leave(read, both_ways, down, &Sizes::both_ways_sums, sizes);
    return sizes;
  }

  /// What reaches each run: what it reads, and what those behind it read.
  static void carry(const std::vector<Cargo>& read, const std::vector<std::size_t>& order,
                    std::vector<Cargo>& carried) {
    Cargo all;
    for (auto i = order.rbegin(); i != order.rend(); ++i) carried[*i] = all = join(read[*i], all);
  }
  static void let_leave(const std::vector<Cargo>& read, const std::vector<Cargo>& carried,
                        const std::vector<std::size_t>& order, Leaving Sizes::*leaving, std::vector<Sizes>& sizes) {
    Cargo seen;  // by the runs up to here
    for (std::size_t j = 0; j < order.size(); ++j) {
      const std::size_t i = order[j];
      seen = join(seen, read[i]);
      const Cargo next = j + 1 < order.size() ? carried[order[j + 1]] : Cargo{};
      sizes[i].*leaving = {head_rows(onward_sums(carried[i], seen)), head_rows(onward_sums(next, seen)),
                           head_rows(home_sums(carried[i], next, seen))};
    }
  }

  void add_run(Index q, const Consumers& run, const Sizes& rows) {
    direct_.arrive(run.begin, run.end, rows.direct);
    direct_.sent.add(q, q + 1, rows.direct * (run.end - run.begin));
    ring_.arrive(run.begin, run.end, rows.ring);
    ring_.sent.add(run.begin - 1, run.end - 1, rows.ring);
    const Index from = goes_up(q, run) ? -1 : 1;
    both_ways_.arrive(run.begin, run.end, rows.both_ways);
    both_ways_.sent.add(run.begin + from, run.end + from, rows.both_ways);
    if (!counts_sums_) return;
    ring_sums_.leave(q, run.begin, run.end, 1, rows.ring_sums);
    both_ways_sums_.leave(q, run.begin, run.end, -from, rows.both_ways_sums);
  }

  const Layout& layout_;
  bool counts_sums_;
  Interval pairs_;
  const Partition& partition_;
  Index ranks_;
  std::vector<Place> places_;  // all intervals, ascending
  Index widen_ = 1;            // ranks that together hold rows of every offset
  Basis basis_ = Basis::exact;
  Sums direct_, ring_, both_ways_, ring_sums_, both_ways_sums_;
  std::unordered_map<std::vector<Index>, std::vector<Sizes>, HashKey> kinds_, coarse_kinds_;
};

}  // namespace

TrafficCounts traffic_counts(const Layout& layout, const Partition& partition, CountedTraffic counted) {
  if (!is_affordable(layout, partition)) {
    const Traffic all = dense_traffic(layout, partition);
    return {all, all, all, all, all, Basis::bound};
  }
  return Counter(layout, partition, counted).count();
}

}  // namespace annulus::pattern
