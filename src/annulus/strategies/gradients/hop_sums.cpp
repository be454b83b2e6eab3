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
  for (std::size_t lane = 0; lane < keys_.lanes(); ++lane) {
    if (!moves(rank, lane, s)) continue;
    const pattern::GradientHop hop = keys_.hops_of(lane).gradients(rank, int(s) - 2);
    const auto of = [&](int peer, const pattern::PackedRows& packed) -> Transfer {
      return {peer, pattern::head_rows(packed), gradient_bytes(keys_.problem(), packed)};
    };
    all.send(of(hop.next, hop.onward));
    all.send(of(hop.owner, hop.home));
    all.receive(of(hop.previous, hop.arriving));
    all.receive(of(hop.reader, hop.returned));
  }
  return all;
}

std::vector<Index> HopSumRound::buffer_bytes(int rank) const {
  std::vector<Index> all(steps(rank));
  for (std::size_t lane = 0; lane < keys_.lanes(); ++lane) {
    const GradientBytes bytes = gradient_buffer_bytes(keys_.problem(), keys_.hops_of(lane), rank);
    for (std::size_t s = 0; s < all.size(); ++s) all[s] += bytes.during(s);
  }
  return all;
}

std::unique_ptr<GradientSink> HopSumPlan::sink(const Setting& setting) const {
  return std::make_unique<HopSums>(setting, *this);
}

void HopSums::begin(std::size_t round, const GradientBlock& own) {
  own_ = own;
  round_ = &plan_.round(round);
  lanes_.clear();
  for (std::size_t lane = 0; lane < round_->keys().lanes(); ++lane) {
    lanes_.emplace_back(round_->keys(), lane, setting_.rank(), own_);
  }
}

HopSums::BothWays HopSums::messages(std::size_t s) {
  BothWays all;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!moves(lane, s)) continue;
    lanes_[lane].begin(s - 2);
    all.sends.add(lanes_[lane].outgoing());
    all.receives.add(lanes_[lane].incoming());
  }
  return all;
}

void HopSums::start(BothWays all, std::size_t s) {
  for (Messages* way : {&all.sends, &all.receives}) {
    way->near.insert(way->near.end(), way->home.begin(), way->home.end());
  }
  core::timed_wait(waits(s), [&] { exchange_.start(all.sends.near, all.receives.near, hop_tag(s, 1)); });
}

/// Collecting rows is not waiting; starting to send is, where device memory is staged.
void HopSums::start(std::size_t s) {
  if (plan_.mode() == HopMode::overlapped) start(messages(s), s);
}

std::optional<GradientBlock> HopSums::open(std::size_t s, std::size_t lane) {
  if (s == 0) return own_;
  if (!lanes_[lane].has(s - 1)) return std::nullopt;
  return lanes_[lane].open(s - 1);
}

void HopSums::complete(std::size_t s) {
  const comm::Scope here("gradients of step " + std::to_string(s));
  if (plan_.mode() == HopMode::blocking) {
    // Even and odd ranks take turns between neighbours; home may be any rank, where turns could wait for each other for
    // ever.
    const BothWays all = messages(s);
    core::timed_wait(waits(s), [&] { exchange_.run_blocking(all.sends.near, all.receives.near, hop_tag(s, 1)); });
    start({{{}, all.sends.home}, {{}, all.receives.home}}, s);
  }
  core::timed_wait(waits(s), [&] { exchange_.wait(); });
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (moves(lane, s)) lanes_[lane].settle(s - 2, setting_.hop(s - 1));
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
