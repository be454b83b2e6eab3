// K and V read out of other ranks' memory: what is read of whom.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

#include "annulus/pattern/hops.hpp"
#include "annulus/strategies/keys/key_source.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Reads in the order of the rotation: of rank - 1, rank - 2, ...; owners of whom nothing is read are no step. Hop d of
/// the metrics is what comes from rank - d.
class WindowRound final : public KeyRound {
 public:
  WindowRound(const Problem& round, const pattern::Partition& partition)
      : KeyRound(round, partition), hops_(layout(), partition, pattern::From::owners) {}

  std::size_t steps(int rank) const override { return reads(rank).size() + 1; }
  std::size_t hops(int rank) const override { return std::size_t(hops_.count(rank)) + 1; }
  std::size_t hop(int rank, std::size_t s) const override { return s == 0 ? 0 : std::size_t(read(rank, s)) + 1; }
  std::string scope(int rank, std::size_t s) const override;
  int owner(int rank, std::size_t s, std::size_t) const override {
    return s == 0 ? rank : hops_.receive_from(rank, read(rank, s));
  }
  KeyBlock form(int rank, std::size_t s, std::size_t channel) const override;
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  const pattern::Hops& all() const { return hops_; }
  /// The hop that step s > 0 reads.
  int read(int rank, std::size_t s) const { return reads(rank)[s - 1]; }
  /// Any rank reads any of this one's rows.
  bool is_read(int rank) const;

  static constexpr std::size_t depth = 2;          ///< reads in flight while the kernel works on a block
  static constexpr std::size_t slots = depth + 1;  ///< buffers: for those, and for the block in hand
  /// Bytes of `count` buffers that take turns: what the i-th read brings lands in buffer i mod count.
  template <std::size_t count, class BytesOf>
  std::array<Index, count> bytes_in_turn(int rank, BytesOf&& bytes_of) const {
    std::array<Index, count> bytes{};
    for (std::size_t i = 0; i < reads(rank).size(); ++i) {
      bytes[i % count] = std::max(bytes[i % count], bytes_of(hops_.rows_received(rank, reads(rank)[i])));
    }
    return bytes;
  }
  std::array<Index, slots> slot_bytes(int rank) const {
    return bytes_in_turn<slots>(rank, [&](Index rows) { return kv_bytes(problem(), rows); });
  }

 private:
  /// Hops that bring a rank anything.
  const std::vector<int>& reads(int rank) const;

  pattern::Hops hops_;
  mutable int rank_ = -1;  // asked for last
  mutable std::vector<int> reads_;
};

template <std::size_t count>
Index total(const std::array<Index, count>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Index(0));
}

class WindowPlan final : public KeyPlan {
 public:
  WindowPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition);

  const WindowRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const Setting& setting) const override;
  /// A copy of the rank's K and V; none where no rank reads any of it.
  Index window_bytes(int rank) const override;
  /// A part of the window, K or V of one batch entry, on its way there.
  Index opening_bytes(int rank) const override;
  bool is_read(int rank) const;

 private:
  std::deque<WindowRound> rounds_;
};

/// Own rows, then what is read from each owner.
MakePlans read_from_windows();

}  // namespace annulus::strategies
