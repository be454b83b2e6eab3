#include "annulus/kernels/device/device_work.hpp"

#include <algorithm>

namespace annulus::kernels::device {
namespace {

template <class Element>
core::Buffer copy_of(const std::vector<Element>& elements) {
  const Index bytes = Index(elements.size() * sizeof(Element));
  core::Buffer buffer("work list", bytes);
  core::copy_to_device(buffer.data(), elements.data(), bytes);
  return buffer;
}

}  // namespace

DeviceWork::DeviceWork(const core::WorkList& work, Index batch, int tile_rows) {
  std::vector<DeviceRun> runs;
  runs.reserve(work.runs.size());
  Index rows = 0;
  for (const core::Run& run : work.runs) {
    runs.push_back({run, rows});
    rows += run.count;
  }
  for (const core::WorkItem& item : work.items) {
    if (item.query.count == 0 || item.key.count == 0) continue;
    items_.push_back({item, teams_});
    teams_ += batch * core::ceil_div(item.query.count, tile_rows) * item.head_count;
  }
  run_buffer_ = copy_of(runs);
  item_buffer_ = copy_of(items_);
  view_ = {static_cast<const DeviceRun*>(run_buffer_.data()), static_cast<const DeviceItem*>(item_buffer_.data()),
           Index(items_.size()), batch, tile_rows};
}

std::vector<Index> DeviceWork::launches(Index head_dim, double flops) const {
  constexpr Index most_teams = Index(1) << 30;  // a league's size is an int
  std::vector<Index> ends;
  Index begin = 0;
  double left = flops;
  const auto end_launch = [&](Index end) {
    ends.push_back(end);
    begin = end;
    left = flops;
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const core::WorkItem& item = items_[i].item;
    const Index item_end = i + 1 < items_.size() ? items_[i + 1].first_team : teams_;
    const double rows = double(std::min<Index>(item.query.count, view_.tile_rows));
    const double team_flops =
        4.0 * double(head_dim) * rows * double(item.key.count) * (item.mask == core::Mask::all ? 1.0 : 0.5);
    for (Index team = items_[i].first_team; team < item_end;) {
      // How many of the item's teams this launch still takes; one at least when it has none yet.
      const double fit = std::min(left / team_flops, double(most_teams - (team - begin)));
      const Index least = team == begin ? 1 : 0;
      const Index take = std::min(std::max(Index(fit), least), item_end - team);
      team += take;
      left -= double(take) * team_flops;
      if (team < item_end) end_launch(team);
    }
  }
  if (begin < teams_) end_launch(teams_);
  return ends;
}

}  // namespace annulus::kernels::device
