#include "annulus/pattern/traffic.hpp"

#include <algorithm>
#include <unordered_map>

#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/plan.hpp"
#include "annulus/pattern/readers.hpp"
#include "annulus/pattern/traffic_bound.hpp"

namespace annulus::pattern {
namespace {

using core::wrap;

constexpr std::size_t affordable_kinds = 2000;  // kinds of owners to evaluate one by one; each takes about 0.1 ms

/// Counts the sums for one owner's rows that the ranks of a run send. The last rank is the rank that rows reach last.
struct Leaving {
  Index inside = 0;   ///< rows whose sums each rank but the last passes on to the next rank of the run
  Index forward = 0;  ///< rows whose sums the last rank passes on to the next run
  Index back = 0;     ///< rows whose sums the last rank sends to the owner
};

/// How many rows of one owner each rank of a run receives, and how many sums for these rows it sends.
struct Sizes {
  Index direct = 0;
  Index ring = 0;
  Index both_ways = 0;
  Leaving ring_sums;
  Leaving both_ways_sums;
};

/// Holds a sum for each rank. add() adds a value to the sums of a range of ranks in O(1); values() runs once over all
/// ranks.
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

/// Adds up a Traffic from the traffic of all owners and runs.
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
  /// Adds the sums of owner q's rows that leave the run [begin, end). The rows go through the run in `direction`.
  void leave(Index q, Index begin, Index end, Index direction, const Leaving& rows) {
    const Index last = direction > 0 ? end - 1 : begin;
    const Index shift = direction > 0 ? 0 : 1;
    sent.add(begin + shift, end - 1 + shift, rows.inside);
    arrive(begin + 1 - shift, end - shift, rows.inside);
    sent.add(last, last + 1, rows.forward + rows.back);
    arrive(last + direction, last + direction + 1, rows.forward);
    arrive(q, q + 1, rows.back);
  }
  Traffic traffic() const { return {received.values(), sent.values(), messages.values(), largest}; }
};

class Counter {
 public:
  Counter(const Layout& layout, const Partition& owners, const Partition& readers, CountedTraffic counted)
      : layout_(layout),
        counts_sums_(counted == CountedTraffic::rows_and_sums),
        owners_(owners),
        reading_(readers),
        ranks_(Index(owners.size())),
        readers_(layout, owners, readers, Runs::estimate),
        classes_(head_classes(layout)),
        direct_(ranks_),
        ring_(ranks_),
        both_ways_(ranks_),
        ring_sums_(ranks_),
        both_ways_sums_(ranks_) {
    if (readers_.are_small()) basis_ = Accuracy::estimate;
  }

  TrafficCounts count() {
    for (Index q = 0; q < ranks_; ++q) {
      if (owners_[std::size_t(q)].count() > 0) add_owner(q);
    }
    return {direct_.traffic(),    ring_.traffic(),           both_ways_.traffic(),
            ring_sums_.traffic(), both_ways_sums_.traffic(), basis_};
  }

 private:
  void add_owner(Index q) {
    const Crossings crossings = readers_.crossings(q);
    if (!Readers::is_any(crossings)) return;
    const std::vector<ReaderRun> runs = readers_.runs(q, crossings, ranks_ / 2);
    const std::vector<Sizes> sizes = sizes_of(q, runs, crossings);
    for (std::size_t i = 0; i < runs.size(); ++i) add_run(q, runs[i], sizes[i]);
  }

  bool goes_up(Index q, const ReaderRun& run) const { return wrap(run.begin - q, ranks_) <= ranks_ / 2; }

  std::vector<Index> key_of(Index q, const std::vector<ReaderRun>& runs, const Crossings& crossings,
                            bool coarse) const {
    std::vector<Index> key = readers_.key(q, runs, crossings, coarse);
    for (const ReaderRun& run : runs) key.push_back(goes_up(q, run));
    return key;
  }

  std::vector<Sizes> sizes_of(Index q, const std::vector<ReaderRun>& runs, const Crossings& crossings) {
    const std::vector<Index> key = key_of(q, runs, crossings, false);
    if (const auto known = kinds_.find(key); known != kinds_.end()) return known->second;
    const std::vector<Index> coarse = key_of(q, runs, crossings, true);
    const auto alike = coarse_kinds_.find(coarse);
    if (kinds_.size() >= affordable_kinds && alike != coarse_kinds_.end()) {
      basis_ = Accuracy::estimate;
      return alike->second;
    }
    std::vector<Sizes> sizes = evaluate(q, runs);
    coarse_kinds_[coarse] = sizes;
    return kinds_[key] = std::move(sizes);
  }

  /// Finds the rows that each run reads (rows_read()), and the rows carried to it, from the farthest run back.
  std::vector<Sizes> evaluate(Index q, const std::vector<ReaderRun>& runs) const {
    const StoredRows& own = owners_[std::size_t(q)];
    std::vector<PackedRows> read;
    for (const ReaderRun& run : runs) read.push_back(rows_read(layout_, own, run.rows(reading_), &classes_));
    std::vector<Sizes> sizes(runs.size());
    std::vector<PackedRows> ring(runs.size()), both_ways(runs.size());
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
      sizes[i].direct = rows_of_all_heads(read[i]);
      sizes[i].ring = rows_of_all_heads(ring[i]);
      sizes[i].both_ways = rows_of_all_heads(both_ways[i]);
    }
    if (!counts_sums_) return sizes;
    let_leave(read, ring, round, &Sizes::ring_sums, sizes);
    let_leave(read, both_ways, up, &Sizes::both_ways_sums, sizes);
    let_leave(read, both_ways, down, &Sizes::both_ways_sums, sizes);
    return sizes;
  }

  /// Sets the rows carried to each run: the rows that it reads, and the rows that the runs after it in `order` read.
  static void carry(const std::vector<PackedRows>& read, const std::vector<std::size_t>& order,
                    std::vector<PackedRows>& carried) {
    PackedRows all;
    for (auto i = order.rbegin(); i != order.rend(); ++i) carried[*i] = all = join(read[*i], all);
  }
  void let_leave(const std::vector<PackedRows>& read, const std::vector<PackedRows>& carried,
                 const std::vector<std::size_t>& order, Leaving Sizes::*leaving, std::vector<Sizes>& sizes) const {
    PackedRows seen;  // the rows that the runs up to run i read
    for (std::size_t j = 0; j < order.size(); ++j) {
      const std::size_t i = order[j];
      seen = join(seen, read[i]);
      const PackedRows next = j + 1 < order.size() ? carried[order[j + 1]] : PackedRows{};
      sizes[i].*leaving = {rows_of_all_heads(sums_sent_forward(carried[i], seen)),
                           rows_of_all_heads(sums_sent_forward(next, seen)),
                           rows_of_all_heads(sums_sent_back(carried[i], next, seen))};
    }
  }

  /// Counts (row, head) pairs of ranges that stand for classes of heads.
  Index rows_of_all_heads(const PackedRows& packed) const {
    Index rows = 0;
    for (const OwnerInterval& owned : packed) {
      for (std::size_t i = 0; i < owned.heads.size(); ++i) rows += classes_.heads[i] * row_count(owned.heads[i]);
    }
    return rows;
  }

  void add_run(Index q, const ReaderRun& run, const Sizes& rows) {
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
  const Partition& owners_;
  const Partition& reading_;
  Index ranks_;
  Readers readers_;
  HeadClasses classes_;
  Accuracy basis_ = Accuracy::exact;
  Sums direct_, ring_, both_ways_, ring_sums_, both_ways_sums_;
  std::unordered_map<std::vector<Index>, std::vector<Sizes>, HashKey> kinds_, coarse_kinds_;
};

}  // namespace

TrafficCounts traffic_counts(const Layout& layout, const Partition& owners, const Partition& readers,
                             CountedTraffic counted) {
  if (!is_affordable(layout, owners)) {
    Traffic all = gathered_traffic(layout, owners);
    for (std::size_t p = 0; p < owners.size(); ++p)
      all.sent[p] = std::max(all.sent[p], all.received[p]);  // a rank sends its own rows, or passes rows on
    return {all, all, all, all, all, Accuracy::bound};
  }
  return Counter(layout, owners, readers, counted).count();
}

}  // namespace annulus::pattern
