#include "annulus/strategies/keys/window_plan.hpp"

#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

const std::vector<int>& WindowRound::reads(int rank) const {
  if (rank_ == rank) return reads_;
  rank_ = rank;
  reads_.clear();
  for (int h = 0; h < hops_.count(rank); ++h) {
    if (hops_.rows_received(rank, h) > 0) reads_.push_back(h);
  }
  return reads_;
}

bool WindowRound::is_read(int rank) const {
  for (int h = 0; h < hops_.count(rank); ++h) {
    if (hops_.rows_sent(rank, h) > 0) return true;
  }
  return false;
}

std::string WindowRound::scope(int rank, std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("read {} of {}", s, reads(rank).size());
}

KeyBlock WindowRound::form(int rank, std::size_t s, std::size_t) const {
  if (s == 0) return own_block({}, rows(rank));
  const pattern::PackedRows packed = hops_.hop(rank, read(rank, s)).receive;
  return {nullptr, pattern::head_rows(packed), pattern::KeyRows::packed(packed)};
}

/// The block of step s + 1 is read during step s or before; at step 0 the own rows are there for all who read them.
Transfers WindowRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  if (s < reads(rank).size()) {
    const int h = read(rank, s + 1);
    const Index rows = hops_.rows_received(rank, h);
    all.receive({hops_.receive_from(rank, h), rows, kv_bytes(problem(), rows)});
  }
  for (int h = 0; s == 0 && h < hops_.count(rank); ++h) {
    const Index rows = hops_.rows_sent(rank, h);
    all.send({hops_.send_to(rank, h), rows, kv_bytes(problem(), rows)});
  }
  return all;
}

std::vector<Index> WindowRound::buffer_bytes(int rank) const { return {total(slot_bytes(rank))}; }

WindowPlan::WindowPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition);
}

std::unique_ptr<KeySource> WindowPlan::source(const Setting& setting) const {
  return std::make_unique<WindowKeys>(setting, *this);
}

bool WindowPlan::is_read(int rank) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const WindowRound& round) { return round.is_read(rank); });
}

Index WindowPlan::window_bytes(int rank) const {
  return is_read(rank) ? rounds_[0].problem().kv_block_bytes(rounds_[0].rows(rank).count()) : 0;
}

Index WindowPlan::opening_bytes(int rank) const { return window_bytes(rank) / (2 * rounds_[0].problem().shape.batch); }

MakePlans read_from_windows() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<WindowPlan>(rounds, partition), nullptr};
  };
}

}  // namespace annulus::strategies
