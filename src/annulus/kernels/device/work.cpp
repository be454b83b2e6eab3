#include "annulus/kernels/device/work.hpp"

#include <algorithm>

#include "annulus/kernels/device/kept_lists.hpp"

namespace annulus::kernels::device {
namespace {

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

}  // namespace

DeviceWork::DeviceWork(const core::WorkList& work, Index batch, Owner owner, int tile_rows)
    : owner_(owner), runs_(device_runs(work)) {
  for (const core::WorkItem& item : work.items) {
    if (item.query.count * item.head_count == 0 || item.key.count == 0) continue;
    items_.push_back({item, teams_});
    teams_ += batch * core::ceil_div(owned_rows(item, owner), tile_rows) * (owner == Owner::rows ? item.head_count : 1);
  }
  run_buffer_ = kept_copy(runs_);
  item_buffer_ = kept_copy(items_);
  view_ = {static_cast<const DeviceRun*>(run_buffer_.data()), static_cast<const DeviceItem*>(item_buffer_.data()),
           Index(items_.size()), tile_rows};
}

double DeviceWork::team_flops(const core::WorkItem& item, Index head_dim) const {
  // The number of products. Each takes D multiplications and D additions per (query, key) pair. Forward: q.k and P v.
  // Owner of queries: q.k, dout.v and dq. Owner of keys: q.k, dout.v, dk and dv. If a band hides pairs, half of all
  // pairs count.
  const double products = owner_ == Owner::rows ? 2 : owner_ == Owner::queries ? 3 : 4;
  const Index met = owner_ == Owner::keys ? item.query.count * item.head_count : item.key.count;
  const double pairs = double(std::min<Index>(owned_rows(item, owner_), view_.tile_rows)) * double(met);
  return 2 * products * double(head_dim) * pairs * (item.band == core::Band::all ? 1.0 : 0.5);
}

std::vector<Index> DeviceWork::launches(Index head_dim, double flops) const {
  constexpr Index most_teams = Index(1) << 30;  // Kokkos counts the teams of a launch in an int
  std::vector<Index> ends;
  Index begin = 0;
  double left = flops;
  const auto end_launch = [&](Index end) {
    ends.push_back(end);
    begin = end;
    left = flops;
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Index item_end = i + 1 < items_.size() ? items_[i + 1].first_team : teams_;
    const double each = team_flops(items_[i].item, head_dim);
    for (Index team = items_[i].first_team; team < item_end;) {
      // How many more of the item's teams fit into this launch. It takes at least one team if it has none yet.
      const double fit = std::min(left / each, double(most_teams - (team - begin)));
      const Index least = team == begin ? 1 : 0;
      const Index take = std::min(std::max(Index(fit), least), item_end - team);
      team += take;
      left -= double(take) * each;
      if (team < item_end) end_launch(team);
    }
  }
  if (begin < teams_) end_launch(teams_);
  return ends;
}

}  // namespace annulus::kernels::device
