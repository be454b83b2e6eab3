// Returns sums of gradients to the owners of keys, one owner per step, when every rank has gathered all keys.
#pragma once

#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/keys/gathered_plan.hpp"

namespace annulus::strategies {

/// Step d works on the rows of rank - d. Sums for these rows travel while the kernel works in step d + 1 or, with
/// blocking messages, after the kernel's work in this step.
class GatheredSumRound final : public SumRound {
 public:
  explicit GatheredSumRound(const KeyRound& keys) : keys_(keys) {}

  std::size_t steps(int) const override { return keys_.partition().size() + 1; }
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  const KeyRound& keys() const { return keys_; }
  /// Bytes of the two blocks of sums, which the steps use in turn, and of the sums that arrive.
  struct Bytes {
    std::array<Index, 2> blocks{};
    Index incoming = 0;

    Index total() const { return blocks[0] + blocks[1] + incoming; }
  };
  Bytes bytes(int rank) const;

 private:
  const KeyRound& keys_;
};

class GatheredSumPlan final : public SumPlan {
 public:
  GatheredSumPlan(const KeyPlan& keys, HopMode mode) : round_(keys.round(0)), mode_(mode) {}

  const GatheredSumRound& round(std::size_t) const override { return round_; }
  std::unique_ptr<GradientSink> sink(const PassContext& context) const override;
  Room room(const LargestMessages&) const override;
  HopMode mode() const { return mode_; }

 private:
  GatheredSumRound round_;
  HopMode mode_;
};

class GatheredSums final : public GradientSink {
 public:
  GatheredSums(const PassContext& context, const GatheredSumPlan& plan)
      : context_(context), plan_(plan), exchange_(context.comm()) {}

  void begin(std::size_t round, const GradientBlock& own) override;
  void start(std::size_t s) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t channel) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { blocks_ = {}, incoming_ = {}; }

 private:
  /// Sends the sums of step d to rank - d; receives sums for the own rows from rank + d.
  void exchange(std::size_t d);
  int peer(Index d) const { return core::wrap(context_.rank() + int(d), int(context_.partition.size())); }
  GradientBlock block(std::size_t d) const {
    return {blocks_[d % 2].data(), context_.partition[std::size_t(peer(-Index(d)))].count(), false};
  }

  const PassContext context_;
  const GatheredSumPlan& plan_;
  GradientBlock own_;
  std::array<core::Buffer, 2> blocks_;  // [0]: sums of even steps, [1]: of odd steps
  core::Buffer incoming_;
  comm::Exchange exchange_;  // declared last, so that messages end before unwinding frees the buffers
};

/// Makes plans in which K and V of all ranks are gathered on every rank. Each step works on the rows of one owner.
MakePlans gathered_gradients(HopMode mode);

}  // namespace annulus::strategies
