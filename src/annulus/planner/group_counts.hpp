// Groups of ranks that share heads, in the closed forms of cost.hpp.
#pragma once

#include "annulus/planner/cost.hpp"

namespace annulus::planner {

/// Rank p is member p mod `size` of group p / `size`, as in HeadGroup.
struct LoadGroups {
  LoadGroups(const core::Shape& whole, const pattern::Partition& partition, Index size);

  Index size() const { return Index(narrow.size()); }
  std::size_t group_of(std::size_t p) const { return p / narrow.size(); }
  const core::Shape& narrow_of(std::size_t p) const { return narrow[p % narrow.size()]; }

  pattern::Partition rows;          ///< of every group
  std::vector<core::Shape> narrow;  ///< what every member works on
};

/// Deals out the work of every group to its members by their heads, as if all heads had equal work, and counts the
/// messages of `exchanges` all-to-alls inside groups, one for each tensor.
void share_work(const LoadGroups& groups, const core::Shape& whole, int exchanges, RankCounts& counts);

}  // namespace annulus::planner
