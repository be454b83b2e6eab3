// The portable back end: Kokkos teams and scratch memory on the default execution space.
#pragma once

#include <functional>

#include "annulus/core/tensor_view.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// attend() of attention.hpp on the default execution space. Complete on return.
void device_attend(const core::WorkList& work, const Operands& operands, State& state,
                   const std::function<void()>& poll);

/// finish() of attention.hpp on the default execution space. Complete on return.
void device_finish(const State& state, const Finished& to, double output_scale);

}  // namespace annulus::kernels
