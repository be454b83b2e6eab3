#include "annulus/strategies/keys/hop_plan.hpp"

#include <algorithm>

#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

HopRound::HopRound(const Problem& round, const pattern::Partition& partition, const std::vector<Direction>& directions)
    : KeyRound(round, partition), is_sliced_(false) {
  for (const Direction& direction : directions) channels_.emplace_back(layout(), partition, direction);
}

HopRound::HopRound(const Problem& round, const pattern::Partition& partition, const Direction& direction, Index slices)
    : KeyRound(round, partition), is_sliced_(true) {
  for (Index i = 0; i < slices; ++i) {
    channels_.emplace_back(layout(), partition, pattern::slice_of(partition, slices, i), direction);
  }
}

std::size_t HopRound::steps(int rank) const {
  int hops = 0;
  for (const Channel& channel : channels_) hops = std::max(hops, channel.hops.count(rank));
  return std::size_t(hops) + 1;
}

std::string HopRound::scope(int rank, std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("hop {} of {}", s, steps(rank) - 1);
}

int HopRound::owner(int rank, std::size_t s, std::size_t channel) const {
  return s == 0 ? rank : channels_[channel].hops.owner(rank, int(s) - 1);
}

KeyBlock HopRound::form(int rank, std::size_t s, std::size_t channel) const {
  const pattern::StoredRows& rows = this->rows(rank);
  if (s > 0) {
    if (!has(rank, channel, s - 1)) return {};
    const pattern::PackedRows packed = channels_[channel].hops.hop(rank, int(s) - 1).receive;
    return {nullptr, pattern::head_rows(packed), pattern::KeyRows::packed(packed)};
  }
  if (!is_sliced_) return own_block({}, rows);
  const pattern::StoredRows& slice = channels_[channel].rows[std::size_t(rank)];
  const std::vector<core::Interval> stored = pattern::places(rows, slice);
  std::vector<std::pair<core::Interval, Index>> taken;
  for (std::size_t i = 0; i < stored.size(); ++i) taken.push_back({slice.intervals()[i], stored[i].begin});
  return {nullptr, rows.count(), pattern::KeyRows::raw(std::move(taken))};
}

Transfers HopRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  const int h = int(s);
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    if (!has(rank, channel, s)) continue;
    const pattern::Hops& hops = channels_[channel].hops;
    const Index sent = hops.rows_sent(rank, h), received = hops.rows_received(rank, h);
    all.send({hops.send_to(rank, h), sent, kv_bytes(problem(), sent)});
    all.receive({hops.receive_from(rank, h), received, kv_bytes(problem(), received)});
  }
  return all;
}

BufferBytes HopRound::buffers(int rank, std::size_t channel) const {
  const pattern::Hops& hops = channels_[channel].hops;
  BufferBytes bytes;
  for (int h = 0; h < hops.count(rank); ++h) {
    Index& receive = bytes.receive[std::size_t(h % 2)];
    receive = std::max(receive, kv_bytes(problem(), hops.rows_received(rank, h)));
    if (hops.passes_on(rank, h) || hops.rows_sent(rank, h) == 0) continue;
    bytes.send = std::max(bytes.send, kv_bytes(problem(), hops.rows_sent(rank, h)));
    bytes.sending_hops = std::size_t(h) + 1;
  }
  return bytes;
}

std::vector<Index> HopRound::buffer_bytes(int rank) const {
  std::vector<Index> all(steps(rank));
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    const BufferBytes bytes = buffers(rank, channel);
    for (std::size_t s = 0; s < all.size(); ++s) all[s] += bytes.during(s);
  }
  return all;
}

HopPlan::HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
                 const std::vector<Direction>& directions)
    : mode_(mode) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition, directions);
}

HopPlan::HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
                 const Direction& direction, Index slices)
    : mode_(mode) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition, direction, slices);
}

std::unique_ptr<KeySource> HopPlan::source(const Setting& setting) const {
  return std::make_unique<HopKeys>(setting, *this);
}

MakePlans hops(HopMode mode, const std::vector<Direction>& directions) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<HopPlan>(rounds, partition, mode, directions), nullptr};
  };
}

}  // namespace annulus::strategies
