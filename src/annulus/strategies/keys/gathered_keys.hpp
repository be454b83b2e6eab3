// Gathers K and V of all ranks on every rank.
#pragma once

#include <optional>

#include "annulus/comm/gather.hpp"
#include "annulus/strategies/keys/gathered_plan.hpp"

namespace annulus::strategies {

/// The rows of all ranks are one block, which allgather_rows() fills.
class CollectiveKeys final : public SourceOf<GatheredRound> {
 public:
  CollectiveKeys(const PassContext& context, const GatheredPlan& plan) : SourceOf(context), plan_(plan) {}

  void begin(std::size_t round) override;
  const KeyBlock* block(std::size_t, std::size_t) const override { return &block_; }
  void finish() override { all_ = {}, block_ = {}; }

 private:
  const GatheredPlan& plan_;
  core::Buffer all_;
  KeyBlock block_;
};

/// The rows of every rank are a block. This rank's own block is in the tensors. The other blocks are in one buffer,
/// rank after rank, each laid out as Tensors::kv.
class GatheredKeys final : public SourceOf<GatheredRound> {
 public:
  GatheredKeys(const PassContext& context, const GatheredPlan& plan)
      : SourceOf(context), plan_(plan), arrived_(context.partition.size()), gather_(context.comm()) {}

  void begin(std::size_t round) override;
  std::size_t hop(std::size_t s) const override { return std::size_t(core::wrap(context_.rank() - owner(s), ranks())); }
  std::string scope(std::size_t s) const override;
  const KeyBlock* block(std::size_t s, std::size_t) const override { return &blocks_[std::size_t(owner(s))]; }
  void progress() override { gather_.progress(); }
  void complete(std::size_t s) override;
  void finish() override;

 private:
  int ranks() const { return int(context_.partition.size()); }
  bool is_as_they_come() const { return round_->order() == GatherOrder::as_they_come; }
  /// The rank whose rows step s works on.
  int owner(std::size_t s) const { return is_as_they_come() ? owners_[s] : round_->owner(context_.rank(), s, 0); }
  void start_gathering();
  /// take() waits for the rows of rank `wanted`; take_any() waits for the rows of any rank whose rows have not arrived.
  void take(int wanted);
  void take_any(core::HopMetrics& waits);

  const GatheredPlan& plan_;
  core::Buffer gathered_;
  std::vector<KeyBlock> blocks_;  // one for each rank
  std::vector<bool> arrived_;     // [rank]
  std::vector<int> owners_;       // of the arrived blocks, in the order of arrival; first this rank
  comm::Gather gather_;           // declared last, so that messages end before unwinding frees the buffer
};

}  // namespace annulus::strategies
