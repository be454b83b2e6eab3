// What the processor can multiply and add at most, measured: the number that kernels are held against.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// GFLOP per CPU second of a thread, all threads of this process at once, in multiply-adds of the kernels' instruction
/// set that wait for nothing: the mean over the threads, which takes some ten milliseconds. 0 where the back end is a
/// device.
double multiply_add_peak(core::Precision precision);

}  // namespace annulus::kernels
