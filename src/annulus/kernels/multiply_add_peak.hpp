// Measures the highest rate at which the processor can multiply and add. `annulus bench` compares kernels with it.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Returns the GFLOP per CPU second of one thread, as the mean over all threads of this process, which all compute
/// independent multiply-adds with the kernels' instruction set. The measurement takes less than 0.1 seconds. Returns 0
/// if the default back end is a device.
double multiply_add_peak(core::Precision precision);

}  // namespace annulus::kernels
