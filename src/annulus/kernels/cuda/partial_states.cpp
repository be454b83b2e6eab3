#include "annulus/kernels/cuda/partial_states.hpp"

#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels::cuda {
namespace {

/// Called for each (split team, query of the tile, number d of the row). With the parts p of the team, m is the largest
/// m_p, and l = sum_p l_p 2^(m_p - m). acc is summed like l. All m_p are even integers, so powers of two are exact, or
/// zero, as in the kernel that made the parts. A part in which the query sees no key has m_p = -inf, l_p = 0 and acc_p
/// = 0, and its power is 0. (If the query sees no key in any part, m_p - m is NaN, and power_of_two() returns 0.)
template <class Sum>
struct MergePartialStates {
  device::DeviceWorkView work;
  const SplitTeam* teams;
  device::StatePointers<Sum> partial, state;
  Index head_dim;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const Index d = at % head_dim, vector = at / head_dim;
    const SplitTeam& split = teams[vector / work.tile_rows];
    const int query = int(vector % work.tile_rows);
    const device::TeamTile tile = work.template tile_of<device::Owner::rows>(split.team);
    if (query >= tile.count) return;
    const Index first = split.first + query, end = first + split.parts * tile.count;
    Sum m = Sum(-INFINITY), l = 0, acc = 0;
    for (Index from = first; from < end; from += tile.count) m = partial.m[from] > m ? partial.m[from] : m;
    for (Index from = first; from < end; from += tile.count) {
      const Sum shrink = device::power_of_two(partial.m[from] - m);
      l += partial.l[from] * shrink;
      acc += partial.acc[from * head_dim + d] * shrink;
    }
    const Index to = state.at(tile.batch, work.row_of(tile.item.query, tile.begin + query).row, tile.head);
    state.acc[to * head_dim + d] = acc;
    if (d > 0) return;
    state.m[to] = m;
    state.l[to] = l;
  }
};

}  // namespace

template <class Sum>
PartialStates<Sum>::PartialStates(const KeySplit& split, Index head_dim)
    : head_dim_(head_dim),
      count_(split.partial_states),
      split_teams_(Index(split.teams.size())),
      parts_(device::kept_copy(split.parts)),
      teams_(device::kept_copy(split.teams)),
      memory_(device::kept_memory("partial states", count_ * bytes_of_one(head_dim))) {}

template <class Sum>
void PartialStates<Sum>::merge(const device::DeviceWorkView& work, const device::StatePointers<Sum>& state) const {
  const MergePartialStates<Sum> body{work, static_cast<const SplitTeam*>(teams_.data()), pointers(), state, head_dim_};
  const Index numbers = split_teams_ * work.tile_rows * head_dim_;
  Kokkos::parallel_for("annulus::merge_partial_states", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, numbers),
                       body);
}

template class PartialStates<float>;
template class PartialStates<double>;

}  // namespace annulus::kernels::cuda
