#include "annulus/strategies/own_passes.hpp"

#include <deque>

namespace annulus::strategies {
namespace {

class OwnKeys final : public SourceOf<KeyRound> {
 public:
  OwnKeys(const PassContext& context, const KeyPlan& plan)
      : SourceOf(context), plan_(plan), block_(own_block(context.tensors, context.rows())) {}

  void begin(std::size_t round) override { round_ = &plan_.round(round); }
  const KeyBlock* block(std::size_t, std::size_t) const override { return &block_; }

 private:
  const KeyPlan& plan_;
  const KeyBlock block_;
};

class OwnKeyPlan final : public KeyPlan {
 public:
  OwnKeyPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    for (const Problem& round : rounds) rounds_.emplace_back(round, partition);
  }
  const KeyRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override {
    return std::make_unique<OwnKeys>(context, *this);
  }
  QueryBlocks query_blocks(int rank) const override {
    if (rounds_[0].problem().all_queries) return {};  // one block, because one exchange returns all softmaxes
    return strategies::query_blocks(rounds_[0].problem(), rounds_[0].query_rows(rank).count());
  }

 private:
  std::deque<KeyRound> rounds_;  // a deque, because a KeyRound cannot be moved
};

/// Takes the sums of passes in which no rank works on another rank's keys, so that no sums travel.
class OwnSums final : public GradientSink {
 public:
  void begin(std::size_t, const GradientBlock& own) override { own_ = own; }
  std::optional<GradientBlock> open(std::size_t, std::size_t) override { return own_; }

 private:
  GradientBlock own_;
};

class OwnSumPlan final : public SumPlan {
 public:
  explicit OwnSumPlan(Wanted wanted) : wanted_(wanted) {}

  const SumRound& round(std::size_t) const override { return round_; }
  std::unique_ptr<GradientSink> sink(const PassContext&) const override { return std::make_unique<OwnSums>(); }
  Wanted wanted() const override { return wanted_; }
  bool is_own() const override { return true; }

 private:
  const Wanted wanted_;
  const SumRound round_{};
};

}  // namespace

MakePlans own_keys() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<OwnKeyPlan>(rounds, partition), nullptr};
  };
}

std::unique_ptr<SumPlan> own_sums(Wanted wanted) { return std::make_unique<OwnSumPlan>(wanted); }

MakePlans own_gradients() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<OwnKeyPlan>(rounds, partition), own_sums(Wanted::all)};
  };
}

}  // namespace annulus::strategies
