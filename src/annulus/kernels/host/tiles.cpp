// Defines the tables of functions (TileFunctions) of one instruction set: one table for each type of words. This file
// is compiled once for each set; the compiler's flags and ANNULUS_INSTRUCTION_SET choose the set
// (instruction_sets.cmake).
#include "annulus/kernels/host/backward_tiles.hpp"
#include "annulus/kernels/host/forward_tiles.hpp"
#include "annulus/kernels/host/pack.hpp"
#include "annulus/kernels/host/statistic_tiles.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// Sets the functions that read and write rows of one storage type.
template <class T, class Storage>
consteval void take_storage(TileFunctions<T>& table, int index) {
  table.pack_queries[index] = pack_side_by_side<T, Storage, kQueryBlock<T>, 1>;
  table.pack_transposed[index] = pack_side_by_side<T, Storage, kKeyBlock<T>, kUnroll<T>>;
  table.pack_rows[index] = pack_rows<T, Storage>;
  table.pack_values[index] = pack_values<T, Storage>;
  table.pack_row_slabs[index] = pack_row_slabs<T, Storage>;
  if constexpr (kPerWord<T> == 1) {
    table.pack_slabs[index] = table.pack_descending_slabs[index] = table.pack_row_slabs[index];
  } else {
    table.pack_slabs[index] = pack_pair_slabs<false>;
    table.pack_descending_slabs[index] = pack_pair_slabs<true>;
  }
  table.dot[index] = dot<Number<T>, Storage>;
  table.store_row[index] = store_row<Number<T>, Storage>;
}

template <class T>
consteval TileFunctions<T> table_of() {
  TileFunctions<T> table = {.group_rows = kGroupRows<T>,
                            .query_step = kLanes<T>,
                            .row_block = kRowBlock,
                            .column_block = kKeyBlock<T>,
                            .key_step = kScoreKeys,
                            .strip_keys = kStripKeys,
                            .depth_step = kUnroll<T>,
                            .column_step = kColumnStep,
                            .backward_row_step = kRowStep<T>,
                            .backward_key_step = kKeyStep<T>,
                            .key_panel = kKeyBlock<T>,
                            .strip_stride = kStripStride<T>,
                            .pack_queries = {},
                            .pack_transposed = {},
                            .pack_rows = {},
                            .pack_values = {},
                            .pack_slabs = {},
                            .pack_descending_slabs = {},
                            .pack_row_slabs = {},
                            .load_columns = load_columns<Number<T>>,
                            .store_columns = store_columns<Number<T>>,
                            .load_rows = load_rows<Number<T>>,
                            .store_rows = store_rows<Number<T>>,
                            .load_query_sums = load_rows<Number<T>>,
                            .store_query_sums = store_rows<Number<T>>,
                            .add_tile = {add_tile<T, false>, add_tile<T, true>},
                            .add_ruled_tile = {add_ruled_tile<T, false>, add_ruled_tile<T, true>},
                            .add_chunks = add_chunks<T>,
                            .add_ruled_chunks = add_ruled_chunks<T>,
                            .add_statistics = add_statistics<T>,
                            .add_ruled_statistics = add_ruled_statistics<T>,
                            .dot = {},
                            .store_row = {}};
  if constexpr (kPerWord<T> == 1) {
    take_storage<T, double>(table, 0);
    take_storage<T, float>(table, 1);
    take_storage<T, HalfBits>(table, 2);
  }
  take_storage<T, BFloat16Bits>(table, 3);
  return table;
}

}  // namespace

#if !defined(ANNULUS_ONLY_PAIRS)
constinit const TileFunctions<float> float_tiles = table_of<float>();
constinit const TileFunctions<double> double_tiles = table_of<double>();
#endif
constinit const TileFunctions<BFloat16Pair> pair_tiles = table_of<BFloat16Pair>();

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
