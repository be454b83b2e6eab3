// Brings K and V of other ranks, hop after hop, in messages from rank to rank.
#pragma once

#include "annulus/strategies/keys/hop_channel.hpp"

namespace annulus::strategies {

/// Returns the tag of a hop's messages. Messages of K and V have kind 0; messages of other kinds may be in flight at
/// the same time. Hops 1024 apart share a tag, which is safe, because messages with the same tag match in the order of
/// sending.
constexpr int hop_tag(std::size_t hop, std::size_t kind = 0) { return int(1024 * kind + hop % 1024); }

/// Returns what carries the messages. If ranks have two parts (pattern/parts.hpp), a rank sends to itself, and messages
/// between two ranks go both ways. Only MPI can carry such messages, because it also matches messages by tag; NCCL
/// matches them only by order.
inline comm::Carrier carrier_of(const HopPlan& plan) {
  return plan.has_parts() ? comm::Carrier::mpi : comm::Carrier::any;
}

class HopKeys final : public SourceOf<HopRound> {
 public:
  HopKeys(const PassContext& context, const HopPlan& plan)
      : SourceOf(context), plan_(plan), exchange_(context.comm(), carrier_of(plan)) {}

  void begin(std::size_t round) override;
  const KeyBlock* block(std::size_t s, std::size_t channel) const override { return channels_[channel].block(s); }
  void start(std::size_t s) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { channels_.clear(); }

 private:
  struct Messages {
    std::vector<comm::Message> sends, receives;
  };
  /// Returns the messages of hop h. First collects the rows that cannot be sent from a receive buffer.
  Messages messages(std::size_t h);

  const HopPlan& plan_;
  std::deque<HopChannel> channels_;  // a deque: channels must not move, because messages and blocks point into them
  comm::Exchange exchange_;          // declared last, so that messages end before unwinding frees the buffers
};

}  // namespace annulus::strategies
