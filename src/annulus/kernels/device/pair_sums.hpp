// The operands and the sums of teams that add up gradients or statistics for the (query, key) pairs of an item.
#pragma once

#include <type_traits>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/statistics.hpp"

namespace annulus::kernels::device {

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
