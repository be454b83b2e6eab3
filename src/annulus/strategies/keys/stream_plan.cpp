#include "annulus/strategies/keys/stream_plan.hpp"

#include "annulus/strategies/keys/stream_keys.hpp"

namespace annulus::strategies {
namespace {

/// For a pass that makes no sums for keys: returns blocks of sums without data, so that the kernel makes none.
class NoSums final : public GradientSink {
 public:
  NoSums(const PassContext& context, const KeyPlan& keys) : rank_(context.rank()), keys_(keys) {}

  void begin(std::size_t round, const GradientBlock&) override { round_ = &keys_.round(round); }
  std::optional<GradientBlock> open(std::size_t s, std::size_t channel) override {
    if (s >= round_->steps(rank_)) return std::nullopt;
    const KeyBlock block = round_->form(rank_, s, channel);
    return GradientBlock{nullptr, block.held, block.rows.is_packed()};
  }

 private:
  const int rank_;
  const KeyPlan& keys_;
  const KeyRound* round_ = nullptr;
};

class NoSumPlan final : public SumPlan {
 public:
  explicit NoSumPlan(const KeyPlan& keys) : keys_(keys) {}

  const SumRound& round(std::size_t) const override { return round_; }
  std::unique_ptr<GradientSink> sink(const PassContext& context) const override {
    return std::make_unique<NoSums>(context, keys_);
  }
  Wanted wanted() const override { return Wanted::of_queries; }

 private:
  const KeyPlan& keys_;
  const SumRound round_;
};

}  // namespace

StreamPlan::StreamPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition);
}

std::unique_ptr<KeySource> StreamPlan::source(const PassContext& context) const {
  return std::make_unique<StreamKeys>(context, *this);
}

MakePlans read_from_store() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<StreamPlan>(rounds, partition), nullptr};
  };
}

MakePlans read_from_store_for_queries() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    Plans plans{std::make_unique<StreamPlan>(rounds, partition), nullptr};
    plans.sums = std::make_unique<NoSumPlan>(*plans.keys);
    return plans;
  };
}

}  // namespace annulus::strategies
