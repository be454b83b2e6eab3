#include "annulus/strategies/forward_loop.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

/// Runs all steps of one round. `current_block`: rows of the current block; null if the rank's rows are not divided.
void add_round(const KeyRound& round, const PassContext& context, KeySource& keys, Computation& computation,
               const pattern::StoredRows* current_block) {
  const std::size_t steps = round.steps(context.rank());
  const auto poll = steps > 1 ? std::function<void()>([&] { keys.progress(); }) : nullptr;
  const auto add = [&](std::size_t s, core::Band part) {
    for (std::size_t channel = 0; channel < round.channels(); ++channel) {
      if (const KeyBlock* block = keys.block(s, channel)) {
        const pattern::StoredRows& queries =
            current_block != nullptr ? *current_block : round.queries(context.rank(), channel);
        computation.add(*block, queries, part, keys.scope(s), context.hop(keys.hop(s)), poll);
      }
    }
  };
  for (std::size_t s = 0; s < steps; ++s) {
    const core::Span step("step", core::SpanKind::step, Index(s));
    keys.start(s);
    add(s, s == 0 ? round.problem().first_part() : core::Band::all);
    keys.complete(s);
  }
  if (round.problem().has_last_part()) add(0, core::Band::after);
}

}  // namespace

core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors,
                              const Progress& progress, const std::function<void(Computation&)>& make_results) {
  const Problem& problem = schedule.problem();
  const pattern::StoredRows& rows = schedule.query_rows()[std::size_t(location.rank())];
  core::RankMetrics metrics{schedule.partition()[std::size_t(location.rank())].count(), {{}}};
  const PassContext context{problem, schedule.partition(), location, tensors, metrics};
  const std::unique_ptr<KeySource> keys = schedule.keys().source(context);
  const core::Count expected = std::max<core::Count>(1, schedule.kept(location.rank()));
  const QueryBlocks blocks = schedule.keys().query_blocks(location.rank());
  for (Index i = 0; i < blocks.count(); ++i) {
    const core::Interval entries = core::even_part(problem.shape.batch, blocks.entries, i / blocks.rows);
    const core::Interval part = pattern::even_part(rows, blocks.rows, i % blocks.rows, problem.grid());
    const pattern::StoredRows queries = pattern::taken(rows, part);
    const double before = double(metrics.total().kept) / double(expected);
    const Progress of_block = [&](double share, const std::string& where) { progress(before + share, where); };
    Computation computation(problem, queries, {entries, part.begin, rows.count()}, tensors, expected,
                            progress ? of_block : progress);
    for (std::size_t r = 0; r < schedule.rounds().size(); ++r) {
      const KeyRound& round = schedule.keys().round(r);
      computation.begin(round.problem());
      keys->begin(r);
      metrics.hops.resize(std::max(metrics.hops.size(), round.hops(location.rank())));
      add_round(round, context, *keys, computation, blocks.rows > 1 ? &queries : nullptr);
    }
    keys->finish();
    make_results ? make_results(computation) : computation.finish(metrics.hops.back());
  }
  keys->close();  // after the results, because this waits for ranks that still read this rank's rows
  return metrics;
}

}  // namespace annulus::strategies
