// The contents of a Plan, in types of the other folders of src/annulus.
#pragma once

#include "annulus/library/plan.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::library {

struct MadePlan {
  Shape shape;  ///< with kv_heads, kv_sequence and value_dim filled in
  int ranks = 1;
  strategies::Problem problem;
  const strategies::Strategy* strategy = nullptr;
  pattern::Partition rows, queries;
  std::string strategy_name, partition_name, reason;
  std::string identity;                                                       ///< from identity_of()
  std::unique_ptr<const strategies::Schedule> forward, statistics, backward;  ///< null: not needed by the problem
};

/// Makes the problem that the arguments describe. Throws Error(usage) that says which value is wrong and what is right.
strategies::Problem make_problem(const Shape& shape, const Pattern& pattern, int ranks, const Options& options);
/// Returns the shape, with defaults for kv_heads, kv_sequence and value_dim where these are 0. Throws Error(usage).
Shape completed(const Shape& shape);

}  // namespace annulus::library
