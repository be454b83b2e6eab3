// Ranks whose GPUs may add in different ways: their results would depend on who computes what.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// The first two that differ among kinds of GPUs, by rank: "rank 0 has sm_90, rank 3 sm_80"; empty: there are none.
/// Ranks without a GPU (an empty kind) do not count: they are refused elsewhere.
std::string other_kinds(const std::vector<std::string>& kinds);
/// Names the kinds of the ranks' GPUs where they differ; collective.
std::string other_kinds(const comm::Communicator& comm);

}  // namespace annulus::app
