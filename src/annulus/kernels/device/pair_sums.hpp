// The operands and the sums of a BackwardTeam, which adds up gradients or statistics of (query, key) pairs. Its
// template parameter Pass is Gradients or, for statistics, Probabilities.
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
