#include "annulus/kernels/device/device_work.hpp"

#include <algorithm>

namespace annulus::kernels::device {

DeviceWork::DeviceWork(const core::WorkList& work, Index batch, int tile_rows)
    : list_(work, batch, tile_rows,
            [=](const core::WorkItem& item) { return core::ceil_div(item.query.count, tile_rows) * item.head_count; }) {
}

std::vector<Index> DeviceWork::launches(Index head_dim, double flops) const {
  return list_.launches(flops, [&](const core::WorkItem& item) {
    const double rows = double(std::min<Index>(item.query.count, list_.view().tile_rows));
    return 4.0 * double(head_dim) * rows * double(item.key.count) * (item.mask == core::Mask::all ? 1.0 : 0.5);
  });
}

}  // namespace annulus::kernels::device
