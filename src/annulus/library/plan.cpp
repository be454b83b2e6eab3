#include "annulus/library/plan.hpp"

#include <limits>

#include "annulus/core/arithmetic.hpp"
#include "annulus/core/print.hpp"
#include "annulus/library/made_plan.hpp"
#include "annulus/library/plan_identity.hpp"
#include "annulus/planner/choose.hpp"

namespace annulus {
namespace {

using library::MadePlan;

/// Returns a machine without a limit of memory, because callers can compare Plan::memory() with the memory they have.
core::Machine any_machine() {
  core::Machine machine = core::default_machine();
  machine.memory_per_rank = std::numeric_limits<double>::infinity();
  return machine;
}

/// Never chooses `single`, which needs all rows on rank 0, because callers have rows on all ranks. A caller may name
/// `single`.
void choose(MadePlan& plan) {
  const core::Machine machine = any_machine();
  std::vector<planner::Candidate> candidates = planner::candidates(plan.problem, plan.ranks, machine);
  std::erase_if(candidates, [](const planner::Candidate& one) { return one.strategy->name() == "single"; });
  if (candidates.empty()) {
    core::fail(ErrorKind::usage, "plan: no strategy can compute this problem on {} with this partition",
               core::how_many(plan.ranks, "rank"));
  }
  const planner::Choice choice = planner::choose_among(std::move(candidates), plan.problem, machine);
  plan.strategy = &choice.strategy();
  plan.problem.partition = choice.partition();
  plan.reason = choice.reason;
}

std::string names_of_strategies() {
  std::string names = "auto";
  for (const auto& one : strategies::registry()) {
    if (!one->reads_store()) names += ", " + std::string(one->name());
  }
  return names;
}

void take_strategy(MadePlan& plan, const std::string& name) {
  const strategies::Strategy* named = strategies::find(name);
  if (name != "auto" && (named == nullptr || named->reads_store())) {
    core::fail(ErrorKind::usage, "plan: strategy is '{}', expected one of {}", name, names_of_strategies());
  }
  if (plan.ranks == 1) {
    plan.strategy = strategies::find("single");
    plan.reason = "single: one rank";
  } else if (named == nullptr) {
    choose(plan);
  } else {
    plan.strategy = named;
    plan.reason = name + ": as asked";
  }
  if (const std::string why = plan.ranks > 1 ? plan.strategy->unavailable() : ""; !why.empty()) {
    core::fail(ErrorKind::usage, "plan: strategy {} cannot run with this MPI: {}", plan.strategy->name(), why);
  }
  const std::string why = strategies::why_not_reproducible(*plan.strategy, plan.problem, plan.ranks);
  if (why.empty()) return;
  core::fail(ErrorKind::usage, "plan: strategy {} is not reproducible: {}", plan.strategy->name(), why);
}

std::shared_ptr<const MadePlan> make(const Shape& shape, const Pattern& pattern, int ranks, const Options& options) {
  const core::DefaultArithmetic arithmetic;  // so that the scale does not depend on the caller's rounding mode
  auto plan = std::make_shared<MadePlan>();
  plan->shape = library::completed(shape);
  plan->ranks = ranks;
  plan->problem = library::make_problem(plan->shape, pattern, ranks, options);
  take_strategy(*plan, options.strategy);
  plan->rows = plan->strategy->partition(plan->problem, ranks);
  plan->strategy_name = plan->strategy->name();
  const auto& asked = plan->problem.partition;
  plan->partition_name = pattern::name_of(asked ? *asked : strategies::kind_of(plan->problem, plan->rows));
  plan->queries = strategies::query_rows(plan->problem, plan->rows);
  plan->identity = library::identity_of(*plan);
  plan->forward = plan->strategy->forward_schedule(plan->problem, plan->rows);
  if (plan->problem.statistics.need_pass()) {
    plan->statistics = plan->strategy->statistics_schedule(plan->problem, plan->rows);
  }
  if (options.gradients) plan->backward = plan->strategy->backward_schedule(plan->problem, plan->rows);
  return plan;
}

void check_rank(const MadePlan& plan, int rank) {
  if (rank >= 0 && rank < plan.ranks) return;
  core::fail(ErrorKind::usage, "plan: there is no rank {}, expected 0 to {}", rank, plan.ranks - 1);
}

strategies::Prediction predict(const MadePlan& plan, int rank, bool backward) {
  check_rank(plan, rank);
  if (backward && !plan.backward) {
    core::fail(ErrorKind::usage, "plan: there is no backward pass, expected Options::gradients");
  }
  return (backward ? plan.backward : plan.forward)->predict(rank);
}

}  // namespace

Index Rows::count() const {
  Index count = 0;
  for (const Interval& interval : intervals) count += interval.size();
  return count;
}

Plan::Plan(const Shape& shape, const Pattern& pattern, int ranks, const Options& options)
    : made_(make(shape, pattern, ranks, options)) {}

Plan::Plan(const Shape& shape, const Pattern& pattern, int ranks, const char* strategy)
    : Plan(shape, pattern, ranks, [&] {
        Options options;
        options.strategy = strategy;
        return options;
      }()) {}

const Shape& Plan::shape() const { return made_->shape; }
int Plan::ranks() const { return made_->ranks; }
const std::string& Plan::strategy() const { return made_->strategy_name; }
const std::string& Plan::partition() const { return made_->partition_name; }
const std::string& Plan::reason() const { return made_->reason; }

Rows Plan::rows(int rank) const {
  check_rank(*made_, rank);
  return {made_->rows[std::size_t(rank)].intervals()};
}

Rows Plan::query_rows(int rank) const {
  check_rank(*made_, rank);
  const Index first = made_->problem.queries ? made_->problem.queries->begin : 0;
  Rows rows;
  for (const Interval& held : made_->queries[std::size_t(rank)].intervals())
    rows.intervals.push_back({held.begin - first, held.end - first});
  return rows;
}

double Plan::kept(int rank) const { return double(predict(*made_, rank, false).kept); }
Index Plan::received(int rank, bool backward) const { return predict(*made_, rank, backward).bytes_received; }
Index Plan::sent(int rank, bool backward) const { return predict(*made_, rank, backward).bytes_sent; }
Index Plan::memory(int rank, bool backward) const { return predict(*made_, rank, backward).memory_bytes; }

}  // namespace annulus
