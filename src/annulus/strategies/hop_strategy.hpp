// Strategies that differ only in their hops.
#pragma once

#include <functional>

#include "annulus/strategies/hop_backward.hpp"
#include "annulus/strategies/hop_loop.hpp"

namespace annulus::strategies {

/// Hops of one rank.
using MakeLanes = std::function<Lanes(const pattern::Layout&, const pattern::Partition&, int rank)>;

/// The ways of the gradients of what they bring.
using MakeGradients = std::function<GradientLanes(const pattern::Layout&, const pattern::Partition&, int rank)>;

/// A strategy that runs these hops through forward_in_hops() and backward_in_hops(); `movement` names them for the cost
/// model.
std::unique_ptr<Strategy> make_hop_strategy(std::string_view name, std::string_view description, HopMode mode,
                                            Movement movement, MakeLanes lanes, MakeGradients gradients);

}  // namespace annulus::strategies
