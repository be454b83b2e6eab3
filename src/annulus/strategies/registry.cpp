#include <fmt/format.h>

#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {

const std::vector<std::unique_ptr<Strategy>>& registry() {
  static const std::vector<std::unique_ptr<Strategy>> strategies = [] {
    std::vector<std::unique_ptr<Strategy>> all;
    for (const auto& entry : {single(), allgather(), allgather_overlap(), ring_blocking(), ring(), rotation(),
                              ring_bidirectional(), onesided(), ulysses(), hybrid(), pass_q(), stream()}) {
      all.push_back(std::make_unique<Strategy>(entry));
    }
    return all;
  }();
  return strategies;
}

std::vector<const Strategy*> available() {
  std::vector<const Strategy*> strategies;
  for (const auto& strategy : registry()) {
    if (strategy->unavailable().empty() && !strategy->reads_store()) strategies.push_back(strategy.get());
  }
  return strategies;
}

std::string why_no_fixed_order(const Problem& problem, const std::string& why_no_units) {
  const std::string_view reason = problem.granule > 1 ? "" : core::why_no_fixed_order(problem.precision);
  if (reason.empty()) return "";
  std::string more = why_not_by_granules(problem);
  if (more.empty()) more = why_no_units;
  return more.empty() ? std::string(reason) : fmt::format("{}: {}", reason, more);
}

std::string why_not_reproducible(const Strategy& strategy, const Problem& problem, int ranks) {
  if (!problem.reproducible) return "";
  if (std::string reason = why_no_fixed_order(problem); !reason.empty()) return reason;
  if (const std::string_view reason = core::why_no_fixed_order(problem.backend); !reason.empty())
    return std::string(reason);
  const std::string reason = strategy.not_reproducible(problem, ranks);
  return reason.empty() && problem.has_ordered_sums() ? strategy.not_reproducible_gradients(problem, ranks) : reason;
}

std::vector<std::string_view> reproducible_strategies(bool gradients) {
  Problem problem;
  problem.reproducible = true;
  problem.gradients = gradients;
  return reproducible_strategies(problem, 1);
}

std::vector<std::string_view> reproducible_strategies(const Problem& problem, int ranks) {
  std::vector<std::string_view> names;
  for (const Strategy* strategy : available()) {
    if (why_not_reproducible(*strategy, problem, ranks).empty()) names.push_back(strategy->name());
  }
  return names;
}

const Strategy* find(std::string_view name) {
  for (const auto& strategy : registry()) {
    if (strategy->name() == name) return strategy.get();
  }
  return nullptr;
}

}  // namespace annulus::strategies
