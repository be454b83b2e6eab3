// Moves sums in hops. If rows go from neighbour to neighbour, the sums for the rows go with them, and the last reader
// sends the sums back to the owner. If rows come straight from their owner, each reader sends its sums straight back.
#pragma once

#include "annulus/strategies/gradients/gradient_channel.hpp"
#include "annulus/strategies/gradients/gradient_sink.hpp"

namespace annulus::strategies {

/// Sums for the rows of hop h travel in step h + 2, while the kernel works on the rows of hop h + 1.
class HopSumRound final : public SumRound {
 public:
  explicit HopSumRound(const HopRound& keys) : keys_(keys) {}

  std::size_t steps(int rank) const override;  // with hops, 1 more than keys take, to return the last sums
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  const HopRound& keys() const { return keys_; }
  bool moves(int rank, std::size_t channel, std::size_t s) const { return s >= 2 && keys_.has(rank, channel, s - 2); }

 private:
  const HopRound& keys_;
};

class HopSumPlan final : public SumPlan {
 public:
  HopSumPlan(const HopPlan& keys, std::size_t rounds) : keys_(keys) {
    for (std::size_t i = 0; i < rounds; ++i) rounds_.emplace_back(keys.round(i));
  }
  const HopSumRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<GradientSink> sink(const PassContext& context) const override;
  Room room(const LargestMessages& largest) const override;
  HopMode mode() const { return keys_.mode(); }

 private:
  const HopPlan& keys_;
  std::deque<HopSumRound> rounds_;
};

/// An owner adds the sums that return in the order of hops and, within a hop, in the order of channels, whatever the
/// order of arrival is. For each channel a rank holds at most two blocks of sums, one buffer for sums to send and one
/// buffer for received sums.
class HopSums final : public GradientSink {
 public:
  HopSums(const PassContext& context, const HopSumPlan& plan)
      : context_(context), plan_(plan), exchange_(context.comm()) {}

  void begin(std::size_t round, const GradientBlock& own) override;
  void start(std::size_t s) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t channel) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { channels_.clear(); }

 private:
  /// The messages that a rank sends in a step, or those that it receives. Two ranks list the messages between them in
  /// the same order.
  struct Messages {
    std::vector<comm::Message> near;  ///< between neighbours on the ring
    std::vector<comm::Message> back;  ///< between readers and owners
    void add(const GradientMessages& one) { near.push_back(one.near), back.push_back(one.back); }
  };
  struct BothWays {
    Messages sends, receives;
  };
  bool moves(std::size_t channel, std::size_t s) const { return round_->moves(context_.rank(), channel, s); }
  BothWays messages(std::size_t s);
  void start(BothWays messages, std::size_t s);
  core::HopMetrics& waits(std::size_t s) const { return context_.hop(s + 1); }  // as HopKeys counts waits in step s

  const PassContext context_;
  const HopSumPlan& plan_;
  const HopSumRound* round_ = nullptr;
  GradientBlock own_;
  std::deque<GradientChannel> channels_;  // a deque, because messages and blocks point into the channels
  comm::Exchange exchange_;               // declared last, so that messages end before unwinding frees the buffers
};

/// Makes plans in which K and V travel in hops, and the sums of their gradients return.
MakePlans hops_and_sums(HopMode mode, const std::vector<Direction>& directions);

}  // namespace annulus::strategies
