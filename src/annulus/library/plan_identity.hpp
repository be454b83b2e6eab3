// What the plans of all ranks have in common, so that a rank with another plan is found before anything is sent.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "annulus/comm/communicator.hpp"
#include "annulus/library/made_plan.hpp"

namespace annulus::library {

/// Everything that decides messages and numbers of a pass, as lines "name value". Equal texts mean plans that work
/// together: two that were made from the same arguments, or from words that mean the same ("auto" and what it chose).
std::string identity_of(const MadePlan& plan);

/// The first lines in which two such texts differ.
std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b);

/// Throws the same Error(usage) on every rank, "attention: rank 2 has causal true, rank 0 has causal false; expected
/// the same on every rank", unless all give the same text; collective.
void check_same(const char* pass, const std::string& identity, const comm::Communicator& comm);

}  // namespace annulus::library
