#include "annulus/strategies/heads/heads_in_ring.hpp"

#include "annulus/strategies/gradients/hop_sums.hpp"
#include "annulus/strategies/gradients/ordered_sums.hpp"
#include "annulus/strategies/heads/head_exchange.hpp"

namespace annulus::strategies {

StrategyEntry heads_in_ring(std::string_view name, std::string_view description, GroupSize group_size) {
  return {
      .name = name,
      .description = description,
      .partition =
          [=](Problem problem, int ranks) {
            // If all ranks are one group, every rank computes all rows, so the partition does not change its work.
            if (!problem.partition && group_size(problem, ranks) == ranks) {
              problem.partition = pattern::PartitionKind::contiguous;
            }
            return ordered_partition(problem, ranks);
          },
      .communication = {},  // depends on the groups
      .forward = hops(HopMode::overlapped, {upwards}),
      .backward = hops_and_sums(HopMode::overlapped, {upwards}),
      .backward_in_order = hops_in_order(HopMode::overlapped, upwards),
      .why_not_reproducible =
          [=](const Problem& problem, int ranks) {
            // If all ranks are one group, every rank has all keys.
            return group_size(problem, ranks) == ranks ? "" : why_out_of_order(problem, ranks);
          },
      .why_no_reproducible_gradients =
          [=](const Problem& problem, int ranks) {
            const bool splits = splits_groups(problem.shape, group_size(problem, ranks));
            return splits ? "ranks that share a key/value head each make sums for it" : "";
          },
      .group_size = group_size,
  };
}

}  // namespace annulus::strategies
