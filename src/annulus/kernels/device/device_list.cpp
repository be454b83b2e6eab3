#include "annulus/kernels/device/device_list.hpp"

#include <algorithm>

namespace annulus::kernels::device {

std::vector<DeviceRun> device_runs(const core::WorkList& work) {
  std::vector<DeviceRun> runs;
  runs.reserve(work.runs.size());
  Index rows = 0;
  for (const core::Run& run : work.runs) {
    runs.push_back({run, rows});
    rows += run.count;
  }
  return runs;
}

std::vector<Index> cut_launches(const std::vector<DeviceItem>& items, Index teams, double flops,
                                const std::function<double(const core::WorkItem&)>& team_flops) {
  constexpr Index most_teams = Index(1) << 30;  // a league's size is an int
  std::vector<Index> ends;
  Index begin = 0;
  double left = flops;
  const auto end_launch = [&](Index end) {
    ends.push_back(end);
    begin = end;
    left = flops;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Index item_end = i + 1 < items.size() ? items[i + 1].first_team : teams;
    const double each = team_flops(items[i].item);
    for (Index team = items[i].first_team; team < item_end;) {
      // How many of the item's teams this launch still takes; one at least when it has none yet.
      const double fit = std::min(left / each, double(most_teams - (team - begin)));
      const Index least = team == begin ? 1 : 0;
      const Index take = std::min(std::max(Index(fit), least), item_end - team);
      team += take;
      left -= double(take) * each;
      if (team < item_end) end_launch(team);
    }
  }
  if (begin < teams) end_launch(teams);
  return ends;
}

}  // namespace annulus::kernels::device
