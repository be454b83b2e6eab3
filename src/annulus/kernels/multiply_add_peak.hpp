// Measures how fast the processor can multiply and add at most: kernels are compared with this number.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Returns the GFLOP per CPU second of one thread (the mean over all threads), while all threads of this process
/// compute multiply-adds of the kernels' instruction set, none of which waits for another. The measurement takes some
/// ten milliseconds. Returns 0 if the default back end is a device.
double multiply_add_peak(core::Precision precision);

}  // namespace annulus::kernels
