// What teams of the backward pass add up for the (query, key) pairs of an item: gradients, or statistics.
#pragma once

#include <type_traits>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/statistics.hpp"

namespace annulus::kernels::device {

/// The operands of a pass, and where its sums are.
struct Gradients {
  BackwardOperands operands;
  GradientViews sums;
};
struct Probabilities {
  StatisticOperands operands;
  StatisticViews sums;
  core::Shape shape;
  core::Index rows;  ///< query rows
};
template <class Pass>
constexpr bool makes_gradients = std::is_same_v<Pass, Gradients>;

}  // namespace annulus::kernels::device
