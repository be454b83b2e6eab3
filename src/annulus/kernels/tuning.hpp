// Numbers that were measured, not derived, each with what it was chosen by. None of them changes what is computed.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels::tuning {

/// Packed keys and values of one tile: half of a 512 KiB second-level cache.
inline constexpr core::Index host_tile_bytes = 256 * 1024;

/// Packed queries and accumulators of one task.
inline constexpr core::Index host_panel_bytes = 512 * 1024;

/// Query rows of a task, times heads: fewer would repeat the packing of the keys too often.
inline constexpr core::Index host_min_task_rows = 192;

/// Tasks per thread wanted, so that threads end at about the same time.
inline constexpr core::Index host_tasks_per_thread = 6;

}  // namespace annulus::kernels::tuning
