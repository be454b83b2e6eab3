#include "annulus/strategies/keys/hop_plan.hpp"

#include <algorithm>

#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

HopRound::HopRound(const Problem& round, const pattern::Partition& partition, const std::vector<Direction>& directions)
    : KeyRound(round, partition), parts_(partition), is_sliced_(false) {
  for (const Direction& direction : directions) channels_.emplace_back(layout(), query_rows(), partition, direction);
}

HopRound::HopRound(const Problem& round, const pattern::Partition& partition, const pattern::Partition& parts,
                   const Direction& direction, Index slices)
    : KeyRound(round, partition), parts_(parts), is_sliced_(true) {
  const pattern::Partition& readers = round.queries ? query_rows() : parts;
  for (Index i = 0; i < slices; ++i) {
    channels_.emplace_back(layout(), readers, pattern::nth_share_of_rows(parts, slices, i, round.grid()), direction);
  }
}

int HopRound::part(int rank, std::size_t channel) const {
  return has_parts() && channel < channels_.size() ? 2 * ranks() - 1 - rank : rank;
}

std::size_t HopRound::steps(int rank) const {
  int hops = 0;
  for (std::size_t channel = 0; channel < channels(); ++channel)
    hops = std::max(hops, hops_of(channel).count(part(rank, channel)));
  return std::size_t(hops) + 1;
}

std::string HopRound::scope(int rank, std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("hop {} of {}", s, steps(rank) - 1);
}

int HopRound::owner(int rank, std::size_t s, std::size_t channel) const {
  return s == 0 ? rank : rank_of(hops_of(channel).owner(part(rank, channel), int(s) - 1));
}

KeyBlock HopRound::form(int rank, std::size_t s, std::size_t channel) const {
  const pattern::StoredRows& rows = this->rows(rank);
  if (s > 0) {
    if (!has(rank, channel, s - 1)) return {};
    const pattern::PackedRows packed = hops_of(channel).hop(part(rank, channel), int(s) - 1).receive;
    return {nullptr, pattern::head_rows(packed), pattern::KeyRows::packed(packed)};
  }
  if (!is_sliced_) return own_block({}, rows);
  const pattern::StoredRows& slice = rows_of(channel)[std::size_t(part(rank, channel))];
  const std::vector<core::Interval> stored = pattern::stored_intervals(rows, slice);
  std::vector<std::pair<core::Interval, Index>> taken;
  for (std::size_t i = 0; i < stored.size(); ++i) taken.push_back({slice.intervals()[i], stored[i].begin});
  return {nullptr, rows.count(), pattern::KeyRows::raw(std::move(taken))};
}

Transfers HopRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  const int h = int(s);
  for (std::size_t channel = 0; channel < channels(); ++channel) {
    if (!has(rank, channel, s)) continue;
    const pattern::Hops& hops = hops_of(channel);
    const int part = this->part(rank, channel), to = rank_of(hops.send_to(part, h)),
              from = rank_of(hops.receive_from(part, h));
    const Index sent = hops.rows_sent(part, h), received = hops.rows_received(part, h);
    if (to != rank) all.send({to, sent, kv_bytes(problem(), sent)});
    if (from != rank) all.receive({from, received, kv_bytes(problem(), received)});
  }
  return all;
}

BufferBytes HopRound::buffers(int rank, std::size_t channel) const {
  const pattern::Hops& hops = hops_of(channel);
  const int part = this->part(rank, channel);
  BufferBytes bytes;
  for (int h = 0; h < hops.count(part); ++h) {
    Index& receive = bytes.receive[std::size_t(h % 2)];
    receive = std::max(receive, kv_bytes(problem(), hops.rows_received(part, h)));
    if (hops.passes_on(part, h) || hops.rows_sent(part, h) == 0) continue;
    bytes.send = std::max(bytes.send, kv_bytes(problem(), hops.rows_sent(part, h)));
    bytes.sending_hops = std::size_t(h) + 1;
  }
  return bytes;
}

std::vector<Index> HopRound::buffer_bytes(int rank) const {
  std::vector<Index> all(steps(rank));
  for (std::size_t channel = 0; channel < channels(); ++channel) {
    const BufferBytes bytes = buffers(rank, channel);
    for (std::size_t s = 0; s < all.size(); ++s) all[s] += bytes.during(s);
  }
  return all;
}

namespace {

/// Returns the parts of a partition if keys and sums must go in order and the rows of the ranks are not in order;
/// otherwise empty. Also empty with blocking messages, because two parts of one rank would wait for each other.
std::optional<pattern::Partition> parts_of(const Problem& problem, const pattern::Partition& partition, HopMode mode) {
  if (!problem.reproducible || mode != HopMode::overlapped) return std::nullopt;
  std::optional<pattern::Partition> parts = ordered_parts(problem, partition);
  if (!parts || parts->size() == partition.size()) return std::nullopt;
  return parts;
}

}  // namespace

HopPlan::HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
                 const std::vector<Direction>& directions)
    : mode_(mode) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition, directions);
}

HopPlan::HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
                 const Direction& direction, Index slices)
    : parts_(parts_of(rounds.front(), partition, mode)), mode_(mode) {
  for (const Problem& round : rounds) {
    rounds_.emplace_back(round, partition, parts_ ? *parts_ : partition, direction, slices);
  }
}

std::unique_ptr<KeySource> HopPlan::source(const PassContext& context) const {
  return std::make_unique<HopKeys>(context, *this);
}

Room HopPlan::room(const LargestMessages& largest) const {
  const HopRound& round = rounds_.front();
  Room room;
  for (std::size_t channel = 0; channel < round.channels(); ++channel) {
    const Index bytes = kv_bytes(round.problem(), round.largest(channel, largest.rows));
    room.buffers += BufferBytes::at_most(round.most_hops(), bytes).during(0);
  }
  return room;
}

MakePlans hops(HopMode mode, const std::vector<Direction>& directions) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    const bool in_parts = directions.size() == 1 && parts_of(rounds.front(), partition, mode);
    return Plans{in_parts ? std::make_unique<HopPlan>(rounds, partition, mode, directions.front(), 1)
                          : std::make_unique<HopPlan>(rounds, partition, mode, directions),
                 nullptr};
  };
}

}  // namespace annulus::strategies
