#include "annulus/kernels/filled_keys.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/core/with_type.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels {
namespace {

using core::Index;

/// A run, and how many (row, head) pairs all runs before it have together.
struct PlacedRun {
  core::FilledRun run;
  Index pairs_before;
};

/// Adds a row's filled-in keys for one head. Index i counts (batch entry, run, row, head), heads fastest.
template <class T>
struct FillIn {
  const PlacedRun* runs;
  Index run_count;
  Index pairs;  // of all runs
  Index rows, heads, value_dim;
  T* m;
  T* l;
  T* acc;
  T shift;   // m of a row whose largest score is 0
  T weight;  // weight of a key of score 0 with this m

  KOKKOS_FUNCTION const PlacedRun& run_of(Index pair) const {
    Index low = 0, high = run_count;
    while (high - low > 1) {
      const Index middle = low + (high - low) / 2;
      (runs[middle].pairs_before <= pair ? low : high) = middle;
    }
    return runs[low];
  }

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const PlacedRun& found = run_of(i % pairs);
    const core::FilledRun& run = found.run;
    const Index pair = i % pairs - found.pairs_before;
    const Index row = run.row + pair / run.head_count * run.stride;
    const Index at = (i / pairs * rows + row) * heads + run.head_first + pair % run.head_count * run.head_stride;
    if (l[at] == T(0)) {  // an empty state: its acc may hold anything
      m[at] = shift;
      for (Index d = at * value_dim; d < (at + 1) * value_dim; ++d) acc[d] = 0;
    }
    l[at] += T(run.keys) * weight;
  }
};

}  // namespace

void add_filled_keys(const core::FilledRuns& runs, State& state) {
  if (runs.empty()) return;
  std::vector<PlacedRun> placed;
  Index pairs = 0;
  for (const core::FilledRun& run : runs) {
    placed.push_back({run, pairs});
    pairs += run.count * run.head_count;
  }
  const Index bytes = Index(placed.size() * sizeof(PlacedRun));
  const core::Buffer there("work list", bytes);
  core::copy_to_device(there.data(), placed.data(), bytes);
  core::with_precision(state.precision, [&](auto number) {
    using T = decltype(number);
    const T shift = device::shift_above(T(0));
    const FillIn<T> body{static_cast<const PlacedRun*>(there.data()),
                         Index(placed.size()),
                         pairs,
                         state.rows,
                         state.shape.heads,
                         state.shape.dim_of_values(),
                         static_cast<T*>(state.m.data()),
                         static_cast<T*>(state.l.data()),
                         static_cast<T*>(state.acc.data()),
                         shift,
                         device::weight_of(T(0), shift, T(state.exponent_bias))};
    Kokkos::parallel_for("annulus::filled_keys",
                         Kokkos::RangePolicy<Kokkos::IndexType<core::Index>>(0, state.shape.batch * pairs), body);
    Kokkos::DefaultExecutionSpace().fence();
  });
}

}  // namespace annulus::kernels
