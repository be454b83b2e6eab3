#include "annulus/planner/group_counts.hpp"

#include "annulus/strategies/heads/head_groups.hpp"

namespace annulus::planner {

LoadGroups::LoadGroups(const core::Shape& whole, const pattern::Partition& partition, Index size)
    : rows(strategies::rows_of_groups(partition, int(size))) {
  for (Index i = 0; i < size; ++i) narrow.push_back(strategies::narrowed(whole, core::even_part(whole.heads, size, i)));
}

void share_work(const LoadGroups& groups, const core::Shape& whole, int exchanges, RankCounts& counts) {
  std::vector<double> kept(groups.rows.size());
  for (std::size_t p = 0; p < counts.kept.size(); ++p) kept[groups.group_of(p)] += counts.kept[p];
  for (std::size_t p = 0; p < counts.kept.size(); ++p) {
    counts.kept[p] = kept[groups.group_of(p)] * double(groups.narrow_of(p).heads) / double(whole.heads);
    counts.group_messages.push_back(double(exchanges) * double(groups.size() - 1));
  }
}

}  // namespace annulus::planner
