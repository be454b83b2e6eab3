#include "annulus/kernels/device/backward_work.hpp"

#include <algorithm>

namespace annulus::kernels::device {

BackwardWork::BackwardWork(const core::WorkList& work, Index batch, Owner owner, int tile_rows)
    : owner_(owner), list_(work, batch, tile_rows, [=](const core::WorkItem& item) {
        return core::ceil_div(owner == Owner::queries ? queries_of(item) : item.key.count, tile_rows);
      }) {}

std::vector<Index> BackwardWork::launches(Index head_dim, double flops) const {
  // Products of D multiplications and additions per (query, key): q.k, dout.v and dq, or these two, dk and dv.
  const double products = owner_ == Owner::queries ? 3 : 4;
  return list_.launches(flops, [&](const core::WorkItem& item) {
    Index owned = queries_of(item), met = item.key.count;
    if (owner_ == Owner::keys) std::swap(owned, met);
    const double pairs = double(std::min<Index>(owned, list_.view().tile_rows)) * double(met);
    return 2 * products * double(head_dim) * pairs * (item.mask == core::Mask::all ? 1.0 : 0.5);
  });
}

}  // namespace annulus::kernels::device
