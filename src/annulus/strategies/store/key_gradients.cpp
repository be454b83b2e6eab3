#include "annulus/strategies/store/key_gradients.hpp"

#include <fmt/format.h>

namespace annulus::strategies {
namespace {

/// The sums of a block's keys, and what adds to them.
class KeySums {
 public:
  KeySums(const Problem& problem, const pattern::StoredRows& keys, const Tensors& tensors, core::RankMetrics& metrics,
          const Progress& progress)
      : problem_(problem),
        expected_(std::max<core::Count>(1, kept_of(problem, keys))),
        poll_(tensors.poll),
        metrics_(metrics),
        progress_(progress),
        keys_(own_block(tensors, keys)),
        memory_("key sums", key_sum_bytes(problem, keys.count())),
        sums_{memory_.data(), keys.count(), false} {
    core::fill_zero(memory_.data(), memory_.bytes());
  }

  /// No block of query rows goes on.
  void end_blocks() const { strategies::end_blocks(problem_, sums_); }
  /// Adds what the queries and `part` of the keys give each other.
  void add(const Problem& round, QueryBlock& queries, core::Band part, const std::string& scope, std::size_t hop) {
    const double before = double(metrics_.total().kept) / double(expected_);
    const Progress of_block = [&](double share, const std::string& where) { progress_(before + share, where); };
    queries.tensors.poll = poll_;
    BackwardComputation computation(problem_, queries.rows, queries.tensors,
                                    make_delta(problem_, queries.rows.count(), queries.tensors), expected_,
                                    progress_ ? of_block : progress_, Wanted::of_keys);
    computation.begin(round);
    computation.add(keys_, queries.rows, sums_, part, scope, metrics_.hops[hop]);
  }
  core::Buffer take() { return std::move(memory_); }

 private:
  const Problem& problem_;
  const core::Count expected_;  // as many as the forward pass keeps of these rows, about
  const std::function<void()> poll_;
  core::RankMetrics& metrics_;
  const Progress progress_;
  const KeyBlock keys_;
  core::Buffer memory_;
  const GradientBlock sums_;
};

void add_round(const QueryRound& round, int block, QueryBlock& own, QueryStream& queries, KeySums& sums,
               core::RankMetrics& metrics) {
  const std::size_t steps = round.steps(block);
  metrics.hops.resize(std::max(metrics.hops.size(), steps));
  queries.begin(round);
  sums.end_blocks();
  for (std::size_t s = 0; s < steps; ++s) {
    const core::Span step("step", core::SpanKind::step, Index(s));
    queries.start(s);
    if (s == 0) {
      sums.add(round.problem(), own, round.problem().first_part(), "own rows", 0);
    } else {
      sums.add(round.problem(), queries.block(s), core::Band::all, fmt::format("read {} of {}", s, steps - 1), s);
    }
    queries.complete(s, metrics.hops[std::min(s + 1, steps - 1)]);
  }
  if (round.problem().has_last_part()) sums.add(round.problem(), own, core::Band::after, "own rows", 0);
}

Index delta_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.shape.heads * Index(core::bytes_of(problem.precision));
}

}  // namespace

core::RankMetrics run_key_gradients(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition,
                                    const Location& location, bool dlse, Tensors& tensors, const Progress& progress) {
  const pattern::StoredRows& rows = partition[std::size_t(location.rank())];
  core::RankMetrics metrics{rows.count(), {{}}};
  KeySums sums(problem, rows, tensors, metrics, progress);
  {
    const core::Buffer memory("own queries", rows.count() * query_block_row_bytes(problem, dlse));
    StoredRead read;
    QueryBlock own = read_queries(problem, location, rows, dlse, memory, read);
    core::timed_wait(metrics.hops[0], [&] { read.wait(); });
    metrics.hops[0].bytes_received += memory.bytes();
    QueryStream queries(problem, location, dlse);
    for (const QueryRound& round : plan.rounds()) add_round(round, location.rank(), own, queries, sums, metrics);
  }
  tensors.dkv = finish_keys(problem, rows.count(), sums.take(), metrics.hops.back());
  return metrics;
}

Index key_gradients_memory(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition, int rank,
                           bool dlse) {
  const Index rows = partition[std::size_t(rank)].count();
  Index buffers = 0, most = rows;  // of a round; rows worked on at once
  for (const QueryRound& round : plan.rounds()) {
    Index slots = 0;
    for (const Index slot : round.counted(rank).slots) {
      slots += slot;
      most = std::max(most, slot);
    }
    buffers = std::max(buffers, slots);
  }
  const Index work = delta_bytes(problem, most) + (rows + buffers) * query_block_row_bytes(problem, dlse);
  const Index larger_panels = backward_panels(problem, most) - backward_panels(problem, rows);
  return problem.kv_block_bytes(rows) + larger_panels + backward_work(problem, rows, work, Wanted::of_keys);
}

Index query_bytes_read(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition, int rank,
                       bool dlse) {
  Index rows = partition[std::size_t(rank)].count();
  for (const QueryRound& round : plan.rounds()) rows += round.counted(rank).rows;
  return rows * query_block_row_bytes(problem, dlse);
}

}  // namespace annulus::strategies
