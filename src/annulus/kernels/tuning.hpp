// Numbers that were chosen by measurement, with these measurements. Comments say which numbers change bits of results.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels::tuning {

/// Forward: limit for the bytes of a tile's packed keys and values, half of a second-level cache of 512 KiB.
inline constexpr core::Index host_tile_bytes = 256 * 1024;

/// Limit for the keys of a tile. Between two polls, a thread computes one tile with the rows of a task. This is about
/// 0.1 GFLOP and takes some milliseconds.
inline constexpr core::Index host_tile_keys = 192;

/// The same limits for matrix units (AMX), which are ten times as fast, on processors with second-level caches of 2
/// MiB. Tiles of 256 KiB cost 2 % at D = 64 and 5 % at D = 128; tiles of 1 MiB gain nothing (4096 rows, not causal).
inline constexpr core::Index matrix_tile_bytes = 512 * 1024;
inline constexpr core::Index matrix_tile_keys = 4096;

/// Forward: bytes of the packed queries and accumulators of one task. In float32 this is enough for 2048 rows at D = 64
/// and 1024 rows at D = 128. With 512 KiB there would be more tasks, each of which packs the keys again. That costs 2 %
/// at D = 64 and 4 % at D = 128 (AVX2, causal, 4096 rows).
inline constexpr core::Index host_panel_bytes = 1024 * 1024;

/// The same for matrix units. Packing takes a larger share of their time, so half as many bytes would cost 4 % (4096
/// rows, D = 64 and 128).
inline constexpr core::Index matrix_panel_bytes = 2048 * 1024;

/// This many rows of a tensor are prefetched before a task packs them, while the task still packs other rows.
inline constexpr core::Index host_rows_ahead = 32;

/// Forward: if there are too few tasks for the threads, tasks become smaller, but not below this many (query row, head)
/// pairs. Packing a key takes about as long as computing 5 to 10 query rows with it.
inline constexpr core::Index host_min_task_rows = 192;

/// Backward: bytes of one task's keys (packed twice), values and accumulators. In float32 this is enough for 768 keys
/// at D = 64 and 1536 keys at D = 32. Each task packs the queries again, and reads and writes dq. At D = 64 the pass is
/// 7 % slower with 120 KiB and 1 % slower with 240 KiB (AVX-512, 1 MiB second-level cache, not causal, 4096 and 2048
/// rows).
inline constexpr core::Index host_key_panel_bytes = 960 * 1024;

/// If fewer keys than this fit into host_key_panel_bytes, a task takes this many, but at most as many as fit into
/// host_long_key_panel_bytes. Examples: 768 keys for D = 128 in float32 and D = 64 in float64, 384 for D = 256 in
/// float32 and D = 128 in float64. Such tasks are 1 to 2.5 % faster than tasks of 960 KiB, and 5 % at D = 256 (AVX-512;
/// with AVX2 2 to 4 %).
inline constexpr core::Index host_panel_keys = 768;
inline constexpr core::Index host_long_key_panel_bytes = 1920 * 1024;

/// Backward: the keys of a task for matrix units (1.8 MiB at D = 64), of which 256 are computed at a time. Fewer keys
/// would make more tasks, each of which packs the queries again.
inline constexpr core::Index matrix_panel_keys = 2048;

/// Backward: query rows, times heads, that are computed with a task's keys at a time (a chunk). The number is not
/// critical: 48 and 192 are within 2 %.
inline constexpr core::Index host_query_chunk = 96;

/// The same for matrix units, but in bytes of packed operands, dq and dS. They stay in the second-level cache while a
/// chunk's rows are computed with a task's keys. In precision bfloat16 a chunk has 832 rows at D = 64 and 512 rows at
/// D = 128.
inline constexpr core::Index matrix_chunk_bytes = 1024 * 1024;

/// Number of comb indices in a block of query rows (GradientViews). This number changes bits. The errors of sums of n
/// terms (measured for n = 8,192 and 65,536) are smallest if a block has about sqrt(n) terms. If an item has one head,
/// a block of this many rows is one chunk.
inline constexpr core::Index host_sum_rows = host_query_chunk;

/// Backward: if there are too few tasks for the threads, tasks become smaller, but not below this many keys. The pass
/// is 7 % slower with 96 keys, measured as for host_key_panel_bytes.
inline constexpr core::Index host_min_task_keys = 192;

/// Forward: if rows are computed block after block, a block's accumulators have this many bytes per thread. A block
/// then has 16 tasks of full size per thread, so keys are packed no more often than without blocks, and threads end at
/// about the same time. 262,144 rows (4 heads of 64, float16, 4 pairs, one thread) took 5.81 CPU seconds in 24 blocks,
/// and 5.83 all at once (medians of three).
inline constexpr core::Index host_block_bytes = 8 * 1024 * 1024;

/// Backward: if batch entries are many and short, a block of entries has this many bytes of dq, dk and dv per thread.
inline constexpr core::Index host_entries_bytes = 2 * 1024 * 1024;

/// The accumulators (forward) or sums (backward) of a block on a device have this many bytes, for the whole device.
inline constexpr core::Index device_block_bytes = 64 * 1024 * 1024;

/// For few query rows and many keys (key_parts()). host_wanted_tasks: how many tasks there should be, enough for the
/// threads of a large node. host_part_keys: the fewest keys of a part of the longest item. host_parts_bytes: limit for
/// the bytes of all parts' query rows and sums. These numbers change bits. For 64 rows on one thread, cutting the keys
/// costs 2 % with parts of 4,166 keys, and 1 % with parts of 8,333 or 12,500 keys (D = 64, float32).
inline constexpr core::Index host_wanted_tasks = 64;
inline constexpr core::Index host_part_keys = 8192;
inline constexpr core::Index host_parts_bytes = 32 * 1024 * 1024;

/// There should be this many tasks per thread, so that threads end at about the same time.
inline constexpr core::Index host_tasks_per_thread = 6;

}  // namespace annulus::kernels::tuning
