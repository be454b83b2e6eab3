// The tile operations of one instruction set, which the compiler's flags and ANNULUS_INSTRUCTION_SET choose
// (instruction_sets.cmake). A tile of keys stays in the second-level cache while every group of MR rows passes over it:
//   scores -> running maximum -> weights -> accumulator, the strip of scores in the first-level cache.
#include "annulus/kernels/host/block.hpp"
#include "annulus/kernels/host/online_softmax.hpp"
#include "annulus/kernels/host/pack.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// How many keys of the tile the rows of a group see: always its first ones, since keys ascend in t.
struct Limits {
  int row[kRowBlock];
  int least;
  int most;
};

template <class T>
ANNULUS_INLINE Limits limits_of(const std::int64_t* visible, const KeyTile<T>& tile) {
  Limits limits{{}, tile.count, 0};
  for (int i = 0; i < kRowBlock; ++i) {
    const std::int64_t seen = visible[i] - tile.first;
    const int limit = seen < 0 ? 0 : seen < tile.count ? int(seen) : tile.count;
    limits.row[i] = limit;
    limits.least = limit < limits.least ? limit : limits.least;
    limits.most = limit > limits.most ? limit : limits.most;
  }
  return limits;
}

/// Scores of a group against the tile's first `end` keys (whole vectors), masked where a row must not look; row_max
/// gets the lanes' maxima of every row.
///   12 rows x 256 keys, causal, rows see 37 ... 48 keys, NR = 32: panel 0 whole, panel 1 (keys 32 ... 47) masked.
template <class T>
ANNULUS_INLINE void score_group(const T* queries, const T* keys, int depth, const Limits& limits, int end, T* strip,
                                Vec<T>* row_max) {
  constexpr int block = kKeyBlock<T>;
  for (int i = 0; i < kRowBlock; ++i) row_max[i] = broadcast(-kInfinity<T>);
  const int whole = limits.least / block * block;  // keys in panels that all rows see whole
  int j = 0;
  for (; j < whole; j += block) score_block<T, 2, true>(queries, keys + j * depth, depth, strip + j, row_max);
  if (j == end) return;
  for (; j + block <= end; j += block) score_block<T, 2, false>(queries, keys + j * depth, depth, strip + j, row_max);
  if (j < end) score_block<T, 1, false>(queries, keys + j * depth, depth, strip + j, row_max);
  for (int i = 0; i < kRowBlock; ++i)
    row_max[i] = larger(mask_scores(strip + i * kMaxKeys<T>, whole, end, limits.row[i]), row_max[i]);
}

template <class T>
void add_tile_to_group(const QueryPanels<T>& panels, std::int64_t group, const KeyTile<T>& tile, T* strip) {
  constexpr int block = kKeyBlock<T>;
  const std::int64_t first_row = group * kRowBlock;
  const Limits limits = limits_of(panels.visible + first_row, tile);
  const int end = round_up(limits.most, kLanes<T>), depth = padded_depth<T>(panels.head_dim);
  const int slabs = slab_count<T>(panels.head_dim), slab_stride = kRowBlock * block;
  T* acc = panels.acc + group * slabs * slab_stride;

  Vec<T> row_max[kRowBlock];
  score_group(panels.queries + first_row * depth, tile.keys, depth, limits, end, strip, row_max);
  for (int i = 0; i < kRowBlock; ++i) {
    const RunningRow<T> row{panels.max + first_row + i, panels.sum + (first_row + i) * kLanes<T>, acc + i * block,
                            slabs, slab_stride};
    weigh_row(row, strip + i * kMaxKeys<T>, end, row_max[i]);
  }
  for (int s = 0; s < slabs; ++s) {
    const T* values = tile.values + std::int64_t(s) * tile.capacity * block;
    if (panels.head_dim - s * block > kLanes<T>)
      value_block<T, 2>(strip, values, end, acc + s * slab_stride);
    else
      value_block<T, 1>(strip, values, end, acc + s * slab_stride);
  }
}

template <class T>
void add_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, T* strip) {
  std::int64_t group = 0;
  while (group < panels.groups && panels.visible[group * kRowBlock + kRowBlock - 1] <= tile.first) ++group;
  for (; group < panels.groups; ++group) add_tile_to_group(panels, group, tile, strip);
}

template <class T>
constexpr TileFunctions<T> kTable = {
    kRowBlock,
    kKeyBlock<T>,
    kLanes<T>,
    kUnroll<T>,
    kMaxKeys<T>,
    {pack_queries<T, double>, pack_queries<T, float>, pack_queries<T, HalfBits>, pack_queries<T, BFloat16Bits>},
    {pack_keys<T, double>, pack_keys<T, float>, pack_keys<T, HalfBits>, pack_keys<T, BFloat16Bits>},
    {pack_values<T, double>, pack_values<T, float>, pack_values<T, HalfBits>, pack_values<T, BFloat16Bits>},
    add_tile<T>,
    {store_row<T, double>, store_row<T, float>, store_row<T, HalfBits>, store_row<T, BFloat16Bits>}};

}  // namespace

const TileFunctions<float> float_tiles = kTable<float>;
const TileFunctions<double> double_tiles = kTable<double>;

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
