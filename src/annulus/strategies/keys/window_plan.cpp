#include "annulus/strategies/keys/window_plan.hpp"

#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

bool WindowRound::is_read(int rank) const {
  for (int h = 0; h < all().count(rank); ++h) {
    if (all().rows_sent(rank, h) > 0) return true;
  }
  return false;
}

Transfers WindowRound::transfers(int rank, std::size_t s) const {
  Transfers moved = ReadRound::transfers(rank, s);
  for (int h = 0; s == 0 && h < all().count(rank); ++h) {
    const Index rows = all().rows_sent(rank, h);
    moved.send({all().send_to(rank, h), rows, kv_bytes(problem(), rows)});
  }
  return moved;
}

WindowPlan::WindowPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition);
}

std::unique_ptr<KeySource> WindowPlan::source(const PassContext& context) const {
  return std::make_unique<WindowKeys>(context, *this);
}

bool WindowPlan::is_read(int rank) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const WindowRound& round) { return round.is_read(rank); });
}

Index WindowPlan::window_bytes(int rank) const {
  return is_read(rank) ? rounds_[0].problem().kv_block_bytes(rounds_[0].rows(rank).count()) : 0;
}

Room WindowPlan::room(const LargestMessages& largest) const {
  const WindowRound& round = rounds_[0];
  const Index window = round.ranks() > 1 ? round.problem().kv_block_bytes(most_rows(round.partition())) : 0;
  const auto bytes_of = [&](Index rows) { return kv_bytes(round.problem(), rows); };
  return {round.most_in_turn<ReadRound::slots>(largest.rows, bytes_of), part_of(window), window};
}

MakePlans read_from_windows() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<WindowPlan>(rounds, partition), nullptr};
  };
}

}  // namespace annulus::strategies
