// Ranks compare their plans by a text, so that a wrong plan on one rank is found before a pass sends its messages.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "annulus/comm/communicator.hpp"
#include "annulus/library/made_plan.hpp"

namespace annulus::library {

/// Returns all that messages and numbers of a pass depend on, as lines "name value". Plans with equal texts were made
/// from the same arguments, or from arguments with the same meaning ("auto" and what it chose). Ranks with such plans
/// can run a pass together.
std::string identity_of(const MadePlan& plan);

/// Returns the first pair of lines in which two such texts differ.
std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b);

/// Throws the same Error(usage) on every rank unless all ranks have the same text: "attention: rank 2 has causal true,
/// rank 0 has causal false; expected the same on every rank". Collective.
void check_same(const char* pass, const std::string& identity, const comm::Communicator& comm);

}  // namespace annulus::library
