// Strategies that differ only in their hops.
#pragma once

#include <functional>

#include "annulus/strategies/hop_backward.hpp"
#include "annulus/strategies/hop_loop.hpp"

namespace annulus::strategies {

/// The ways of the gradients of what they bring.
using MakeGradients = std::function<GradientLanes(const pattern::Layout&, const pattern::Partition&, int rank)>;

/// A strategy that runs these hops through forward_in_hops() and backward_in_hops(); `movement` names them for the cost
/// model. `disorder`: why they do not bring keys in the order of passes(), where they do not.
std::unique_ptr<Strategy> make_hop_strategy(std::string_view name, std::string_view description, HopMode mode,
                                            Movement movement, MakeLanes lanes, MakeGradients gradients,
                                            std::string_view disorder = "");

}  // namespace annulus::strategies
