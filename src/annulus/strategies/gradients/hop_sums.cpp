#include "annulus/strategies/gradients/hop_sums.hpp"

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

std::size_t HopSumRound::steps(int rank) const {
  const std::size_t hops = keys_.steps(rank) - 1;
  return hops > 0 ? hops + 2 : 1;
}

Transfers HopSumRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  for (std::size_t channel = 0; channel < keys_.channels(); ++channel) {
    if (!moves(rank, channel, s)) continue;
    const pattern::GradientHop hop = keys_.hops_of(channel).gradients(rank, int(s) - 2);
    const auto of = [&](int peer, const pattern::PackedRows& packed) -> Transfer {
      return {peer, pattern::head_rows(packed), gradient_bytes(keys_.problem(), packed)};
    };
    all.send(of(hop.next, hop.send_forward));
    all.send(of(hop.owner, hop.send_back));
    all.receive(of(hop.previous, hop.receive_forward));
    all.receive(of(hop.reader_of_own_rows, hop.receive_back));
  }
  return all;
}

std::vector<Index> HopSumRound::buffer_bytes(int rank) const {
  std::vector<Index> all(steps(rank));
  for (std::size_t channel = 0; channel < keys_.channels(); ++channel) {
    const GradientBytes bytes = gradient_buffer_bytes(keys_.problem(), keys_.hops_of(channel), rank);
    for (std::size_t s = 0; s < all.size(); ++s) all[s] += bytes.during(s);
  }
  return all;
}

std::unique_ptr<GradientSink> HopSumPlan::sink(const PassContext& context) const {
  return std::make_unique<HopSums>(context, *this);
}

Room HopSumPlan::room(const LargestMessages& largest) const {
  const HopRound& keys = keys_.round(0);
  Room room;
  for (std::size_t channel = 0; keys.most_hops() > 0 && channel < keys.channels(); ++channel) {
    const Index block = sum_bytes(keys.problem(), keys.largest(channel, largest.rows));
    const Index message = sum_bytes(keys.problem(), keys.largest(channel, largest.sums));
    const Index messages = keys.hops_of(channel).returns_straight() ? 1 : 2;  // 2: forward and back
    room.buffers += GradientBytes::at_most(keys.most_hops(), block, messages, message).during(2);
  }
  return room;
}

void HopSums::begin(std::size_t round, const GradientBlock& own) {
  own_ = own;
  round_ = &plan_.round(round);
  channels_.clear();
  for (std::size_t channel = 0; channel < round_->keys().channels(); ++channel) {
    channels_.emplace_back(round_->keys(), channel, context_.rank(), own_);
  }
}

HopSums::BothWays HopSums::messages(std::size_t s) {
  BothWays all;
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    if (!moves(channel, s)) continue;
    channels_[channel].begin(s - 2);
    all.sends.add(channels_[channel].outgoing());
    all.receives.add(channels_[channel].incoming());
  }
  return all;
}

void HopSums::start(BothWays all, std::size_t s) {
  for (Messages* way : {&all.sends, &all.receives}) {
    way->near.insert(way->near.end(), way->back.begin(), way->back.end());
  }
  core::timed_wait(waits(s), "post", [&] { exchange_.start(all.sends.near, all.receives.near, hop_tag(s, 1)); });
}

/// The time for collecting rows does not count as waiting. The time for starting the sends does, because starting takes
/// time if device memory is staged, and no work hides this time.
void HopSums::start(std::size_t s) {
  if (plan_.mode() == HopMode::overlapped) start(core::in_span("pack", [&] { return messages(s); }), s);
}

std::optional<GradientBlock> HopSums::open(std::size_t s, std::size_t channel) {
  if (s == 0) return own_;
  if (!channels_[channel].has(s - 1)) return std::nullopt;
  return channels_[channel].open(s - 1);
}

void HopSums::complete(std::size_t s) {
  const comm::Scope doing("sums of step " + std::to_string(s));
  if (plan_.mode() == HopMode::blocking) {
    // Neighbours exchange with blocking calls: even ranks send first, odd ranks receive first. Sums that return may go
    // to any rank. With blocking calls such ranks could deadlock, so sums that return are sent without blocking.
    const BothWays all = core::in_span("pack", [&] { return messages(s); });
    core::timed_wait(waits(s), "exchange",
                     [&] { exchange_.run_blocking(all.sends.near, all.receives.near, hop_tag(s, 1)); });
    start({{{}, all.sends.back}, {{}, all.receives.back}}, s);
  }
  core::timed_wait(waits(s), [&] { exchange_.wait(); });
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    if (moves(channel, s)) channels_[channel].settle(s - 2, context_.hop(s - 1));
  }
}

MakePlans hops_and_sums(HopMode mode, const std::vector<Direction>& directions) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    auto keys = std::make_unique<HopPlan>(rounds, partition, mode, directions);
    auto sums = std::make_unique<HopSumPlan>(*keys, rounds.size());
    return Plans{std::move(keys), std::move(sums)};
  };
}

}  // namespace annulus::strategies
