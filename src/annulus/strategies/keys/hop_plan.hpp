// Plans how K and V travel in hops. Step 0 works on the rank's own rows, step s > 0 on the rows that hop s - 1 brought.
#pragma once

#include <array>
#include <deque>

#include "annulus/pattern/hops.hpp"
#include "annulus/strategies/keys/key_source.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// One direction of hops. A direction has one channel or, if rows travel in slices, one channel for each slice.
struct Direction {
  pattern::From from = pattern::From::neighbours;
  int sign = 1;                                                   ///< 1: rows go upwards, from rank to rank + 1
  int (*reach)(int ranks) = [](int ranks) { return ranks - 1; };  ///< returns the largest number of hops
};

/// The direction of the strategy `ring`: once round the ring, from neighbour to neighbour.
inline constexpr Direction upwards{};

/// Bytes of a channel's buffers on one rank. The rows of hop h are received in buffer h mod 2.
struct BufferBytes {
  std::array<Index, 2> receive{};
  Index send = 0;
  std::size_t sending_hops = 0;  ///< the send buffer is freed after this many hops

  /// An upper bound for `hops` hops, if no message has more than `bytes` bytes.
  static BufferBytes at_most(std::size_t hops, Index bytes) {
    return {{hops > 0 ? bytes : 0, hops > 1 ? bytes : 0}, hops > 0 ? bytes : 0, hops};
  }
  /// Bytes that are held during hop h.
  Index during(std::size_t h) const { return receive[0] + receive[1] + (h < sending_hops ? send : 0); }
};

class HopRound final : public KeyRound {
 public:
  /// For rows of every rank that travel whole, in each direction.
  HopRound(const Problem& round, const pattern::Partition& partition, const std::vector<Direction>& directions);
  /// For rows of every part that travel in slices, higher rows first; each slice has a channel
  /// (gradients/ordered_sums.hpp).
  /// A rank with two parts has the channels of both, first those of the part with the later rows. Parts are not copied.
  HopRound(const Problem& round, const pattern::Partition& partition, const pattern::Partition& parts,
           const Direction& direction, Index slices);

  const pattern::Partition& parts() const override { return parts_; }
  int part(int rank, std::size_t channel) const override;
  bool has_parts() const { return parts_.size() > partition().size(); }
  int rank_of(int part) const { return pattern::rank_of_part(part, ranks()); }

  std::size_t steps(int rank) const override;
  std::size_t channels() const override { return channels_.size() * parts_.size() / partition().size(); }
  std::string scope(int rank, std::size_t s) const override;
  int owner(int rank, std::size_t s, std::size_t channel) const override;
  KeyBlock form(int rank, std::size_t s, std::size_t channel) const override;
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  /// The hops of a channel; they go from part to part.
  const pattern::Hops& hops_of(std::size_t channel) const { return channels_[channel % channels_.size()].hops; }
  bool has(int rank, std::size_t channel, std::size_t h) const {
    return int(h) < hops_of(channel).count(part(rank, channel));
  }
  /// The rows of every part that travel in a channel.
  const pattern::Partition& rows_of(std::size_t channel) const { return channels_[channel % channels_.size()].rows; }
  bool computes_own(std::size_t channel) const override { return is_sliced_ || channel == 0; }
  BufferBytes buffers(int rank, std::size_t channel) const;
  /// Returns how many (row, key/value head) pairs a message of a channel brings at most: not more than `largest`, which
  /// bounds all messages of the pass, and not more than the fullest part has in this channel.
  Index largest(std::size_t channel, Index largest) const {
    return std::min(largest, pattern::most_rows(rows_of(channel)) * problem().shape.kv_heads);
  }
  std::size_t most_hops() const { return parts_.size() - 1; }

 private:
  struct Channel {
    Channel(const pattern::Layout& layout, const pattern::Partition& readers, pattern::Partition owned,
            const Direction& direction)
        : rows(std::move(owned)),
          hops(layout, rows, readers, direction.from, direction.sign, direction.reach(int(readers.size()))) {}

    const pattern::Partition rows;
    const pattern::Hops hops;
  };
  const pattern::Partition& parts_;
  std::deque<Channel> channels_;  // of one part; a deque, because `hops` points to `rows`, so a Channel must not move
  const bool is_sliced_;
};

/// A plan of rounds in hops. If keys come in a fixed order, or in slices, there is only one direction. If the rows of a
/// reproducible problem do not follow one another from rank to rank, the rows go from part to part (pattern/parts.hpp);
/// such hops need HopMode::overlapped.
class HopPlan final : public KeyPlan {
 public:
  HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
          const std::vector<Direction>& directions);
  HopPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, HopMode mode,
          const Direction& direction, Index slices);

  const HopRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;
  Room room(const LargestMessages& largest) const override;
  HopMode mode() const { return mode_; }
  bool has_parts() const { return parts_.has_value(); }

 private:
  const std::optional<pattern::Partition> parts_;  // empty if the parts are the ranks' rows
  std::deque<HopRound> rounds_;
  HopMode mode_;
};

/// Makes the plans of a forward pass in hops. Each rank works on its own keys first, then on the rows that each hop
/// brings. For any number of ranks a rank holds at most its own rows and, for each channel, two received blocks and one
/// block to send.
MakePlans hops(HopMode mode, const std::vector<Direction>& directions);

}  // namespace annulus::strategies
