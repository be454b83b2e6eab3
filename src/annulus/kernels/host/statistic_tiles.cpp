// Computes how much attention each key receives, and the largest weights of each row, in one instruction set. For MR
// rows and a tile of keys, the weights E (backward_chunks.hpp) are made first, panel by panel. Both results are then
// made from E, which is in the first-level cache.
#include "annulus/kernels/host/statistic_tiles.hpp"

#include "annulus/kernels/host/weight_panels.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// A vector of numbers T that has as many lanes as Doubles.
template <class T>
struct NarrowFor;
template <>
struct NarrowFor<float> {
  typedef float Type __attribute__((vector_size(sizeof(float) * kLanes<double>)));
};
template <>
struct NarrowFor<double> {
  using Type = Doubles;
};

/// Adds factor * E of MR rows, one after another, to the float64 sums of one vector of keys.
///   p [MR][kStripStride], received [slots][capacity], both from the vector's first key on   slots, factors [MR]
template <class T>
ANNULUS_INLINE void receive(const T* p, const int* slots, const double* factors, double* received, int capacity) {
  int slot = slots[0];
  Doubles sum = load<Doubles>(received + slot * capacity);
  for (int i = 0; i < kRowBlock; ++i) {
    if (slots[i] != slot) {  // this row has another query head; with one for each key/value head this never happens
      store(received + slot * capacity, sum);
      slot = slots[i];
      sum = load<Doubles>(received + slot * capacity);
    }
    const auto weights = load_unaligned<typename NarrowFor<T>::Type>(p + i * kStripStride<T>);
    accumulate(sum, __builtin_convertvector(weights, Doubles), broadcast(factors[i]));
  }
  store(received + slot * capacity, sum);
}

/// Loads `count` weights, vector by vector, and returns the largest weight of each lane.
template <class T>
ANNULUS_INLINE Vec<T> largest_of(const T* p, int count) {
  Vec<T> most = load<Vec<T>>(p);
  for (int j = kLanes<T>; j < count; j += kLanes<T>) most = larger(load<Vec<T>>(p + j), most);
  return most;
}

/// Calls admit() for the weights of a row that lie above the row's threshold, and sets these weights to 0 in p. The
/// largest weight comes first, because admit() may raise the threshold. Smaller weights that would soon leave the list
/// again are then not admitted at all.
template <class T>
ANNULUS_INLINE void admit_large(const StatisticSums<T>& sums, int row, int key, T* p, int count) {
  for (;;) {
    const Vec<T> most = largest_of(p, count);
    if (!any_above(most, broadcast(sums.thresholds[row]))) return;
    const Vec<T> weight = largest_lane_everywhere<T>(most);
    // Finds the weight's index without a branch, because the processor could not predict a branch.
    std::uint64_t low = 0, high = 0;  // bits for the first kTileKeys / 2 weights, and for the others
    for (int j = 0; j < count; j += kLanes<T>) {
      const std::uint64_t there = lanes_equal(load<Vec<T>>(p + j), weight);
      (j < kTileKeys / 2 ? low : high) |= there << j % (kTileKeys / 2);
    }
    if ((low | high) == 0) return;  // a weight is NaN, because a score is infinite
    const int i = low != 0 ? __builtin_ctzll(low) : kTileKeys / 2 + __builtin_ctzll(high);
    // Stores a whole vector, because the next round soon loads the whole vector.
    T* const around = p + i / kLanes<T> * kLanes<T>;
    const Vec<IntOf<T>> lane = Vec<IntOf<T>>{} + IntOf<T>(i % kLanes<T>);
    store(around, count_up<T>() == lane ? Vec<T>{} : load<Vec<T>>(around));
    sums.admit(sums.lists, row, key + i, weight[0]);
  }
}

template <class T, class Rule>
ANNULUS_INLINE void add_tiles(const ScoreRows<T>& q, const ScoreKeys<T>& k, const StatisticSums<Number<T>>& sums,
                              Rule rule) {
  const DenormalsAreZero for_pairs(kPerWord<T> > 1);
  alignas(kVectorBytes) Number<T> p[kRowBlock * kStripStride<T>];
  const int begin = q.begin[0], end = at_most(q.end[q.rows - 1], k.count);
  for (int tile = 0; tile < k.count; tile += kTileKeys) {
    const int keys = at_most(kTileKeys, k.count - tile);
    if (tile >= end || tile + keys <= begin) continue;
    for (int row = 0; row < q.rows; row += kRowBlock) {
      const Range panels = panels_of(q, row, tile, keys);
      for_each_panel(q, row, tile, panels, [&](int j, auto vectors, auto is_masked) {
        fill_weights<T, vectors(), is_masked()>(q, k, row, tile + j, p + j, rule);
      });
      for (int j = panels.begin; j < panels.end; j += kLanes<double>)
        receive(p + j, sums.slots + row, sums.factors + row, sums.received + tile + j, k.capacity);
      if (sums.thresholds == nullptr) continue;
      for (int i = 0; panels.begin < panels.end && i < kRowBlock; ++i)
        admit_large(sums, row + i, tile + panels.begin, p + i * kStripStride<T> + panels.begin,
                    panels.end - panels.begin);
    }
  }
}

}  // namespace

template <class T>
void add_statistics(const ScoreRows<T>& q, const ScoreKeys<T>& k, const StatisticSums<Number<T>>& sums) {
  add_tiles(q, k, sums, NoRule());
}
template <class T>
void add_ruled_statistics(const ScoreRows<T>& q, const ScoreKeys<T>& k, const StatisticSums<Number<T>>& sums) {
  add_tiles(q, k, sums, RuledKeys<Number<T>>{sums.rule, nullptr, 0, 0});
}

#define ANNULUS_STATISTIC_TILES(T)                                                                            \
  template void add_statistics<T>(const ScoreRows<T>&, const ScoreKeys<T>&, const StatisticSums<Number<T>>&); \
  template void add_ruled_statistics<T>(const ScoreRows<T>&, const ScoreKeys<T>&, const StatisticSums<Number<T>>&)

#if !defined(ANNULUS_ONLY_PAIRS)
ANNULUS_STATISTIC_TILES(float);
ANNULUS_STATISTIC_TILES(double);
#endif
ANNULUS_STATISTIC_TILES(BFloat16Pair);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
