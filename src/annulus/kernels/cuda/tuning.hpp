// Sizes of the tiles of the tensor-core kernels, per type and head size, first choices first. Numbers only; what they
// take is held by tools/cuda_resources.txt. Those of 16-bit numbers with D = 64 and 128, forward with D = 256, and of
// TF32's forward pass with D = 64 are the fastest of 3 to 7 that were measured in bfloat16 and float32 on an H200 with
// 16,384 rows. The others are chosen by what their machine code asks of shared memory (tools/cuda_loops.py), and so
// that two blocks of 4 warps or one of 8 fit into an H100's multiprocessor (227 KiB, 64 K registers), if not of the
// largest rows.
//
//   warps          of a block; each has row_tiles x 16 rows (8 in float64) of queries, or of keys where it owns those
//   row_tiles      with two of them a piece of K or V that was read from shared memory is multiplied twice
//   keys           of a tile; K and V are there twice, the next tile on its way
//   kept_queries   a warp's queries stay in registers; else they are read from shared memory for each tile of keys
#pragma once

namespace annulus::kernels::cuda {

struct TileSizes {
  int columns;  ///< head sizes up to this one, filled up with zeros
  int warps;
  int row_tiles;
  int keys;
  bool kept_queries;
};

/// For 16-bit numbers: O takes row_tiles * columns / 2 registers, S row_tiles * keys / 2, kept queries row_tiles *
/// columns / 4, of 255. D = 128: 128 rows of queries and two stages of 64 keys take 98 KiB, two blocks on an H100.
/// D = 256: on an H200 eight warps and 64 keys, in 197 KiB, are 1.17 times as fast as the last ones, which other GPUs
/// take.
inline constexpr TileSizes sizes_16[] = {{32, 4, 2, 64, true},   {64, 4, 2, 64, true},   {96, 4, 2, 64, false},
                                         {128, 4, 2, 64, false}, {192, 4, 1, 32, false}, {256, 8, 1, 64, false},
                                         {256, 4, 1, 32, false}};

/// float32, as TF32 or three of it: pieces are cut in two parts then, which takes registers.
inline constexpr TileSizes sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 2, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes sizes_3xtf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 1, 32, false}, {256, 4, 1, 16, false}};

/// float64: O takes row_tiles * columns / 2 registers, S row_tiles * keys / 2.
inline constexpr TileSizes sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 2, 16, false}};

/// Backward, 16-bit numbers, blocks that own queries: dq takes row_tiles * columns / 2 registers, S and W row_tiles *
/// keys / 2 each. Those that own keys have dk and dv, or one of them (most_columns_of_both).
inline constexpr TileSizes query_sizes_16[] = {{32, 4, 2, 32, false},
                                               {64, 4, 2, 64, false},
                                               {128, 4, 2, 32, false},
                                               {192, 4, 1, 32, false},
                                               {256, 4, 1, 32, false}};
inline constexpr TileSizes key_sizes_16[] = {{32, 4, 2, 32, false},
                                             {64, 4, 2, 32, false},
                                             {128, 4, 2, 32, false},
                                             {192, 8, 1, 32, false},
                                             {256, 8, 1, 32, false}};

/// Beyond these columns dk and dv do not fit into a warp's registers side by side: pairs of warps make them.
inline constexpr int most_columns_of_both = 64;

/// The same as TF32 or three of it: rows of 512 bytes at D = 128, and the block's own and two stages of what it meets
/// are there in both operands, so that 64 + 2 x 16 of them take 96 KiB, and at D = 256 twice as much.
inline constexpr TileSizes query_sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 16, false}, {128, 4, 1, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 16, false}, {128, 4, 2, 16, false}, {256, 8, 1, 16, false}};

/// Three products of TF32 have sums of pieces in registers, too (engines.hpp).
inline constexpr TileSizes query_sizes_3xtf32[] = {
    {32, 4, 1, 64, false}, {64, 4, 1, 32, false}, {128, 4, 1, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_3xtf32[] = {
    {32, 4, 1, 64, false}, {64, 4, 1, 32, false}, {128, 8, 1, 16, false}, {256, 8, 1, 16, false}};

/// The same of float64: sums take twice the registers, and a warp has rows of 8.
inline constexpr TileSizes query_sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 1, 32, false}, {128, 4, 2, 16, false}};

/// Keys that are split (key_split.hpp); none of these has been measured yet. What it takes longer to split at all, to
/// send the tables and to merge, in keys that a block meets meanwhile.
inline constexpr int keys_worth_a_split = 1024;
/// Keys that a part should have: its queries are read, and its partial state is written and read again.
inline constexpr int fewest_keys_of_part = 256;
/// Parts of a team, which are merged one after another.
inline constexpr int most_parts = 64;
/// How many times as many blocks there may be as run side by side.
inline constexpr int most_turns = 2;
/// Memory of the partial states of a call. Two blocks on each of an H100's multiprocessors and most_turns take 33 MiB
/// with 128 queries and D = 128.
inline constexpr int most_partial_bytes = 64 << 20;

/// Shared memory that a block may have on sm_90, which all tiles fit into; smaller GPUs leave the larger ones to the
/// portable kernels.
inline constexpr int most_shared_bytes = 227 * 1024;

}  // namespace annulus::kernels::cuda
