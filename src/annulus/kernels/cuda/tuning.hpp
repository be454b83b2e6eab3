// Sizes of the tiles of the tensor-core kernels, for each type and head size, the first choice first. This file has
// only numbers. tools/cuda_resources.txt has the registers and memory that the kernels take. The sizes for 16-bit
// numbers with D = 64 and 128, for their forward pass with D = 256, and for TF32's forward pass with D = 64 are the
// fastest of 3 to 7 that were measured in bfloat16 and float32 on an H200 with 16,384 rows. The others were chosen by
// how much their machine code uses shared memory (tools/cuda_loops.py), and so that two blocks of 4 warps or one block
// of 8 warps fit into an H100's multiprocessor (227 KiB, 64 K registers). Some sizes for the largest heads take more.
//
//   warps          in a block; each has row_tiles x 16 rows (float64: x 8) of the queries or keys that the block owns
//   row_tiles      with two, a piece of K or V is multiplied twice after it has been read from shared memory
//   keys           in a tile (key_sizes: queries); shared memory has two such tiles, one in use and one being copied
//   kept_queries   a warp's queries stay in registers; otherwise they are read from shared memory for each tile of keys
#pragma once

namespace annulus::kernels::cuda {

struct TileSizes {
  int columns;  ///< the largest head size; shorter rows are filled up with zeros
  int warps;
  int row_tiles;
  int keys;
  bool kept_queries;
};

/// 16-bit numbers: of a thread's 255 registers, O takes row_tiles * columns / 2, S row_tiles * keys / 2, and kept
/// queries row_tiles * columns / 4. D = 128: 128 rows of queries and two stages of 64 keys take 101 KiB, so an H100's
/// multiprocessor has room for two blocks. D = 256: on an H200, eight warps and 64 keys, in 197 KiB, are 1.17 times as
/// fast as the last sizes, which are for GPUs with less shared memory.
inline constexpr TileSizes sizes_16[] = {{32, 4, 2, 64, true},   {64, 4, 2, 64, true},   {96, 4, 2, 64, false},
                                         {128, 4, 2, 64, false}, {192, 4, 1, 32, false}, {256, 8, 1, 64, false},
                                         {256, 4, 1, 32, false}};

/// float32, as one or three products of TF32. With three, numbers are split into two parts, which takes registers.
inline constexpr TileSizes sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 2, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes sizes_3xtf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 1, 32, false}, {256, 4, 1, 16, false}};

/// float64: O takes row_tiles * columns / 2 registers, S row_tiles * keys / 2.
inline constexpr TileSizes sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 2, 16, false}};

/// Backward pass, 16-bit numbers. In blocks that own queries, dq takes row_tiles * columns / 2 registers, S and W
/// row_tiles * keys / 2 each. In blocks that own keys, a warp makes dk and dv, or one of them (most_columns_of_both).
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

/// With more columns, dk and dv do not both fit into a warp's registers, so one warp of a pair makes dk and the other
/// one dv (backward_block.hpp).
inline constexpr int most_columns_of_both = 64;

/// The same for float32, as one product of TF32 or three (next tables). A row takes 512 bytes at D = 128. Shared memory
/// has a block's own rows and two stages of rows met, and each row for two tensors. So 64 + 2 x 16 rows take 96 KiB,
/// and at D = 256 twice as much.
inline constexpr TileSizes query_sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 16, false}, {128, 4, 1, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_tf32[] = {
    {32, 4, 2, 32, false}, {64, 4, 2, 16, false}, {128, 4, 2, 16, false}, {256, 8, 1, 16, false}};

/// Three products of TF32 also keep sums of pieces in registers (engines.hpp).
inline constexpr TileSizes query_sizes_3xtf32[] = {
    {32, 4, 1, 64, false}, {64, 4, 1, 32, false}, {128, 4, 1, 16, false}, {256, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_3xtf32[] = {
    {32, 4, 1, 64, false}, {64, 4, 1, 32, false}, {128, 8, 1, 16, false}, {256, 8, 1, 16, false}};

/// The same for float64: a sum takes two registers, but a row tile has only 8 rows.
inline constexpr TileSizes query_sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 2, 32, false}, {128, 4, 1, 16, false}};
inline constexpr TileSizes key_sizes_64[] = {{32, 4, 2, 32, false}, {64, 4, 1, 32, false}, {128, 4, 2, 16, false}};

/// Constants for splitting keys (key_split.hpp). None of them has been measured yet. keys_worth_a_split is the time
/// that a split takes to send the tables and to merge, as the number of keys that a block adds in that time.
inline constexpr int keys_worth_a_split = 1024;
/// The fewest keys of a part. Parts must not be too small, because each part reads its queries, and writes a partial
/// state that is read again.
inline constexpr int fewest_keys_of_part = 256;
/// The most parts of a team, which are merged one after another.
inline constexpr int most_parts = 64;
/// The most blocks, in multiples of the blocks that the GPU runs at the same time.
inline constexpr int most_turns = 2;
/// The most memory for the partial states of a call. With 128 queries and D = 128, two blocks on each of an H100's
/// multiprocessors, times most_turns, take 33 MiB.
inline constexpr int most_partial_bytes = 64 << 20;

/// Shared memory that a block may have on sm_90. All tiles fit into it. On GPUs with less shared memory, the portable
/// kernels compute the calls whose tiles do not fit.
inline constexpr int most_shared_bytes = 227 * 1024;

}  // namespace annulus::kernels::cuda
