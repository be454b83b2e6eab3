// The tables of functions that the files in this folder define.
#pragma once

#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

extern const TileFunctions<BFloat16Pair> forward_tiles, forward_of_two_parts, forward_of_three_parts;
extern const TileFunctions<BFloat16Pair> backward_tiles, backward_of_two_parts, backward_of_three_parts;

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
