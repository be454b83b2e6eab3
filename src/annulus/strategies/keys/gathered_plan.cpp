#include "annulus/strategies/keys/gathered_plan.hpp"

#include "annulus/strategies/keys/gathered_keys.hpp"

namespace annulus::strategies {
namespace {

/// Returns the rows of all ranks in one block, rank after rank, each rank's rows in the order in which the rank stores
/// them.
pattern::KeyRows all_rows(const pattern::Partition& partition) {
  std::vector<std::pair<core::Interval, Index>> stored_at;
  Index stored = 0;
  for (const pattern::StoredRows& rows : partition) {
    for (std::size_t i = 0; i < rows.intervals().size(); ++i) {
      stored_at.push_back({rows.intervals()[i], stored + rows.stored_begin(i)});
    }
    stored += rows.count();
  }
  return pattern::KeyRows::raw(std::move(stored_at));
}

}  // namespace

std::size_t GatheredRound::steps(int rank) const {
  if (order_ == GatherOrder::at_once) return 1;
  if (order_ != GatherOrder::as_they_come) return partition().size();
  std::size_t steps = 1;
  for (int p = 0; p < ranks(); ++p) steps += p != rank && rows(p).count() > 0;
  return steps;
}

/// metrics.hops[d] counts the rows of rank - d, whichever step works on these rows.
std::size_t GatheredRound::hop(int rank, std::size_t s) const {
  return order_ == GatherOrder::at_once ? 0 : std::size_t(core::wrap(rank - owner(rank, s, 0), ranks()));
}

std::string GatheredRound::scope(int rank, std::size_t s) const {
  if (order_ == GatherOrder::at_once) return "all rows";
  return s == 0 ? "own rows" : fmt::format("rows of rank {}", owner(rank, s, 0));
}

int GatheredRound::owner(int rank, std::size_t s, std::size_t) const {
  if (order_ == GatherOrder::at_once) return every_rank;
  return core::wrap(rank - int(s), ranks());
}

KeyBlock GatheredRound::form(int rank, std::size_t s, std::size_t) const {
  if (order_ == GatherOrder::at_once) return {nullptr, problem().shape.sequence, all_rows(partition())};
  return own_block({}, rows(owner(rank, s, 0)));
}

Transfers GatheredRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  if (s > 0 || !is_first_) return all;
  const Index heads = problem().shape.kv_heads, n = problem().shape.sequence, own = rows(rank).count() * heads;
  if (order_ == GatherOrder::at_once) {
    const Index sent = own * (ranks() - 1), received = n * heads - own;
    all.send({every_rank, sent, kv_bytes(problem(), sent)});
    all.receive({every_rank, received, kv_bytes(problem(), received)});
    return all;
  }
  for (int d = 1; d < ranks(); ++d) {
    const int to = core::wrap(rank + d, ranks()), from = core::wrap(rank - d, ranks());
    const Index theirs = rows(from).count() * heads;
    all.send({to, own, kv_bytes(problem(), own)});
    all.receive({from, theirs, kv_bytes(problem(), theirs)});
  }
  return all;
}

GatheredPlan::GatheredPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, GatherOrder order) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition, order, rounds_.empty());
}

std::unique_ptr<KeySource> GatheredPlan::source(const PassContext& context) const {
  if (rounds_[0].order() == GatherOrder::at_once) return std::make_unique<CollectiveKeys>(context, *this);
  return std::make_unique<GatheredKeys>(context, *this);
}

MakePlans gathered(GatherOrder order) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<GatheredPlan>(rounds, partition, order), nullptr};
  };
}

}  // namespace annulus::strategies
