// `annulus list`: prints strategies, semantics, shardings and partitions, one line each.
#include <fmt/format.h>

#include "annulus/app/verbs/verb.hpp"
#include "annulus/core/print.hpp"
#include "annulus/layer/weights.hpp"
#include "annulus/report/text.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {
namespace {

void line(std::string_view name, std::string_view text) { report::print_line(name, text, 18); }

void print_list() {
  core::print("strategies (distribution.strategy)\n");
  for (const auto& strategy : strategies::registry()) {
    const std::string reason = strategy->unavailable();
    line(strategy->name(), reason.empty() ? strategy->description() : fmt::format("not with this MPI: {}", reason));
  }
  line("auto", "the cheapest that fits by the cost model (see plan); single below distribution.local_below rows");
  core::print("reproducible (compute.reproducible)\n");
  line("true", fmt::format("{}", fmt::join(strategies::reproducible_strategies(false), ", ")));
  line("gradients", fmt::format("{}", fmt::join(strategies::reproducible_strategies(true), ", ")));
  core::print("semantics (attention.semantics)\n");
  for (const auto& entry : pattern::semantics_table) line(entry.name, entry.description);
  core::print("shardings of a layer's weights (layer.sharding)\n");
  for (const auto& entry : layer::sharding_table) line(entry.name, entry.description);
  core::print("partitions (distribution.partition)\n");
  for (const auto& entry : pattern::partition_table) line(entry.name, entry.description);
  line("auto",
       "contiguous; documents or zigzag if that saves the busiest rank more than 5 % of its work, where every interval "
       "of rows counts as work, too; strategy auto chooses strategy and partition together");
}

}  // namespace

Verb list_verb() {
  return {.name = "list",
          .does = "Strategies, semantics and partitions",
          .example = "annulus list",
          .options = {},
          .run =
              [](const comm::Communicator& comm, const std::string&) {
                if (comm.is_root()) print_list();
                return 0;
              },
          .ranks_matter = RanksMatter::never};
}

}  // namespace annulus::app
