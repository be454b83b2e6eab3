#include "annulus/kernels/device/device_work.hpp"

#include <algorithm>

namespace annulus::kernels::device {

DeviceWork::DeviceWork(const core::WorkList& work, Index batch, int tile_rows) {
  for (const core::WorkItem& item : work.items) {
    if (item.query.count == 0 || item.key.count == 0) continue;
    items_.push_back({item, teams_});
    teams_ += batch * core::ceil_div(item.query.count, tile_rows) * item.head_count;
  }
  run_buffer_ = copy_of(device_runs(work));
  item_buffer_ = copy_of(items_);
  view_ = {{static_cast<const DeviceRun*>(run_buffer_.data())},
           static_cast<const DeviceItem*>(item_buffer_.data()),
           Index(items_.size()),
           batch,
           tile_rows};
}

std::vector<Index> DeviceWork::launches(Index head_dim, double flops) const {
  const auto team_flops = [&](const core::WorkItem& item) {
    const double rows = double(std::min<Index>(item.query.count, view_.tile_rows));
    return 4.0 * double(head_dim) * rows * double(item.key.count) * (item.mask == core::Mask::all ? 1.0 : 0.5);
  };
  return cut_launches(items_, teams_, flops, team_flops);
}

}  // namespace annulus::kernels::device
