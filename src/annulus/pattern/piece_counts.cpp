#include "annulus/pattern/piece_counts.hpp"

#include <algorithm>

namespace annulus::pattern {

PieceCounts::PieceCounts(const Layout& layout, const Readers& readers, int ranks, int direction, int reach)
    : layout_(layout),
      readers_(readers),
      ranks_(ranks),
      direction_(direction),
      reach_(reach),
      read_at_(std::size_t(reach) + 1) {
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i)
    combs_.emplace_back(layout.pattern, i, layout.heads);
}

std::optional<DistanceCounts> PieceCounts::of(int owner, const StoredRows& rows, const Crossings& crossings) {
  const std::size_t distances = std::size_t(reach_) + 2;
  DistanceCounts counts{std::vector<Index>(distances), std::vector<Index>(distances),
                        std::vector<bool>(distances, true)};
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    const bool found = find_readers(owner, rows.intervals()[i], crossings[i]);
    std::sort(reading_.rbegin(), reading_.rend());
    if (found) add(rows.intervals()[i], counts);
    for (const int distance : reading_) read_at_[std::size_t(distance)] = 0;
    reading_.clear();
    if (!found) return std::nullopt;
  }
  // The rows carried to a rank are those that were counted for it and for all farther ranks.
  for (std::size_t d = distances - 1; d-- > 0;) counts.carried[d] += counts.carried[d + 1];
  return counts;
}

bool PieceCounts::find_readers(int owner, Interval rows, const std::vector<std::vector<Interval>>& crossings) {
  pieces_.clear();
  for (std::size_t j = 0; j < crossings.size(); ++j) {
    for (const Interval& segment : crossings[j]) {
      const std::size_t before = pieces_.size();
      if (!find_pieces(Index(j), segment, rows)) return false;
      if (pieces_.size() == before) continue;
      const Pieces upto = pieces_.size() == most_pieces ? ~Pieces(0) : (Pieces(1) << pieces_.size()) - 1;
      find_readers(owner, Index(j), segment, rows, upto & ~((Pieces(1) << before) - 1));
    }
  }
  return true;
}

/// Appends the pieces that the pair's combs of the segment have in `rows`. Returns false for windows, and if there may
/// be too many pieces.
bool PieceCounts::find_pieces(Index pair, Interval segment, Interval rows) {
  const Pair& its = layout_.pattern.pairs[std::size_t(layout_.used_pairs().begin + pair)];
  const PairCombs& combs = combs_[std::size_t(pair)];
  if (its.window || pieces_.size() + combs.offsets().size() > most_pieces) return false;
  rows = core::intersect(rows, layout_.keys);  // rows that are no keys are not read
  at_offset_.assign(combs.offsets().size(), 0);
  combs.visit(segment, rows, [&](const UsedOffset& used, std::size_t i) {
    const Comb comb = comb_of(segment, its.dilation, used.offset);
    const Interval t = indices_within(comb, rows);
    if (t.empty()) return;
    at_offset_[i] = Pieces(1) << pieces_.size();
    pieces_.push_back({{comb.row(t.begin), comb.stride, t.size()}, pair, Index(i)});
  });
  return true;
}

/// Marks the pieces that each rank reads: those of the pieces `all` in whose combs the rank holds rows (if causal,
/// rows after `rows`).
void PieceCounts::find_readers(int owner, Index pair, Interval segment, Interval rows, Pieces all) {
  const Index dilation = layout_.pattern.pairs[std::size_t(layout_.used_pairs().begin + pair)].dilation;
  const Interval seen{layout_.pattern.causal ? std::max(segment.begin, rows.end) : segment.begin, segment.end};
  readers_.visit_holders(seen, [&](Index rank, Interval held) {
    if (rank == owner) return;
    const int distance = core::wrap((int(rank) - owner) * direction_, ranks_);
    if (distance > reach_) return;
    Pieces& read = read_at_[std::size_t(distance)];
    if ((read & all) == all) return;
    Pieces more = all;
    if (held.size() < dilation) {
      more = 0;
      combs_[std::size_t(pair)].visit(segment, held, [&](const UsedOffset&, std::size_t i) { more |= at_offset_[i]; });
    }
    if (read == 0 && more != 0) reading_.push_back(distance);
    read |= more;
  });
}

/// Adds the counts of the current interval to `counts`, beginning with the farthest rank.
void PieceCounts::add(Interval rows, DistanceCounts& counts) {
  std::vector<Pieces> order;
  std::vector<std::size_t> kinds;  // [i]: index in `order` of the set that is read at distance reading_[i]
  for (const int distance : reading_) {
    const Pieces read = read_at_[std::size_t(distance)];
    kinds.push_back(std::size_t(std::find(order.begin(), order.end(), read) - order.begin()));
    if (kinds.back() == order.size()) order.push_back(read);
  }
  if (order.empty()) return;
  const std::vector<Joined>& sets = joined(rows, order);
  std::size_t next = 0;  // index of the next set to join
  Index carried = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::size_t d = std::size_t(reading_[i]);
    counts.read[d] += sets[kinds[i]].read;
    if (kinds[i] != next) continue;  // a farther rank reads the same set: no more rows are carried
    if (sets[next].changes) counts.passes_on_all[d] = false;
    counts.carried[d] += sets[next].carried - carried;
    carried = sets[next++].carried;
  }
}

/// Returns for each set of `order` how many rows the set has (`read`), and how many rows it has together with all sets
/// before it (`carried`).
const std::vector<PieceCounts::Joined>& PieceCounts::joined(Interval rows, const std::vector<Pieces>& order) {
  std::vector<Index> key{Index(pieces_.size())};
  for (const Piece& piece : pieces_) {
    key.insert(key.end(), {piece.rows.first - rows.begin, piece.rows.count, piece.pair, piece.offset});
  }
  for (const Pieces set : order) key.push_back(Index(set));
  std::vector<Joined>& sets = known_[std::move(key)];
  if (!sets.empty()) return sets;
  PackedRows all;
  for (const Pieces set : order) {
    const PackedRows read = this->read(rows, set);
    PackedRows more = join(read, all);
    sets.push_back({head_rows(read), head_rows(more), more != all});
    all = std::move(more);
  }
  return sets;
}

/// The rows of the given pieces, in the form of rows_read().
PackedRows PieceCounts::read(Interval rows, Pieces pieces) const {
  OwnerInterval owned{rows, std::vector<std::vector<StridedRange>>(std::size_t(layout_.key_heads().size()))};
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if ((pieces >> i & 1) == 0) continue;
    const UsedOffset& used = combs_[std::size_t(pieces_[i].pair)].offsets()[std::size_t(pieces_[i].offset)];
    for_each_key_head(layout_, used.heads,
                      [&](Index kv, const HeadSet&) { owned.heads[std::size_t(kv)].push_back(pieces_[i].rows); });
  }
  for (std::vector<StridedRange>& ranges : owned.heads) ranges = reduce(std::move(ranges));
  return is_empty(owned) ? PackedRows{} : PackedRows{std::move(owned)};
}

}  // namespace annulus::pattern
