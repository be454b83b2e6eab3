#include "annulus/kernels/device/backward_work.hpp"

#include <algorithm>

namespace annulus::kernels::device {

BackwardWork::BackwardWork(const core::WorkList& work, Index batch, Owner owner, int tile_rows) : owner_(owner) {
  for (const core::WorkItem& item : work.items) {
    if (queries_of(item) == 0 || item.key.count == 0) continue;
    items_.push_back({item, teams_});
    teams_ += batch * core::ceil_div(owner == Owner::queries ? queries_of(item) : item.key.count, tile_rows);
  }
  run_buffer_ = copy_of(device_runs(work));
  item_buffer_ = copy_of(items_);
  view_ = {{static_cast<const DeviceRun*>(run_buffer_.data())},
           static_cast<const DeviceItem*>(item_buffer_.data()),
           Index(items_.size()),
           batch,
           tile_rows};
}

std::vector<Index> BackwardWork::launches(Index head_dim, double flops) const {
  // Products of D multiplications and additions per (query, key): q.k, dout.v and dq, or these two, dk and dv.
  const double products = owner_ == Owner::queries ? 3 : 4;
  const auto team_flops = [&](const core::WorkItem& item) {
    Index owned = queries_of(item), met = item.key.count;
    if (owner_ == Owner::keys) std::swap(owned, met);
    const double pairs = double(std::min<Index>(owned, view_.tile_rows)) * double(met);
    return 2 * products * double(head_dim) * pairs * (item.mask == core::Mask::all ? 1.0 : 0.5);
  };
  return cut_launches(items_, teams_, flops, team_flops);
}

}  // namespace annulus::kernels::device
