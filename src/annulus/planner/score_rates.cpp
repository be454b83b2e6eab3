#include "annulus/planner/score_rates.hpp"

#include "annulus/kernels/attention.hpp"

namespace annulus::planner {
namespace {

// Time of a forward pass divided by its time with plain scores; float32, heads of 64, one core of an AMD EPYC (Zen 4):
// docs/scores.md. For backward passes, where they are smaller, the same factors are used.
constexpr double of_cap = 1.10;
constexpr double of_causal_alibi = 1.02;
constexpr double of_alibi = 1.05;  // keys before a row are nearer strip by strip, so the running maximum keeps rising
constexpr double of_alibi_in_plane = 1.07;

double factor_of(const strategies::Problem& problem) {
  const kernels::ScoreRule& rule = problem.rule;
  const double cap = rule.has_cap() ? of_cap : 1;
  if (!rule.has_bias()) return cap;
  return cap * (rule.coordinates ? of_alibi_in_plane : problem.pattern.causal ? of_causal_alibi : of_alibi);
}

}  // namespace

double seconds_per_gflop(const strategies::Problem& problem, const core::Machine& machine) {
  const bool any_cut = problem.reproducible && problem.granule == 1;
  const core::Precision products =
      any_cut && core::is_split(problem.precision)
          ? core::Precision::float32
          : kernels::computed_products(problem.shape, problem.precision, problem.rule.any());
  return factor_of(problem) * machine.seconds_per_gflop(problem.shape.head_dim, problem.type, products);
}

}  // namespace annulus::planner
