// The configuration of AMX's tile registers. This header has plain data only, because files with different compiler
// flags include it.
#pragma once

#include <cstdint>

namespace annulus::kernels::host {

/// Palette 1: eight registers, each 16 rows of 64 bytes.
struct TileConfiguration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t bytes_per_row[16];
  std::uint8_t rows[16];
};
/// This is not inline, so that each file has a copy of its own, and files with different flags share nothing.
constexpr TileConfiguration full_tiles{1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
static_assert(sizeof full_tiles == 64);

}  // namespace annulus::kernels::host
