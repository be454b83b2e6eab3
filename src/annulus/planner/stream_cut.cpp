#include "annulus/planner/stream_cut.hpp"

#include <fmt/format.h>

#include <bit>

#include "annulus/comm/activity.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/pattern/counts.hpp"

namespace annulus::planner {
namespace {

using strategies::UnitCost;

constexpr Index units_per_rank = 4;     // at least this many, so that ranks end at about the same time
constexpr Index most_blocks = 1 << 14;  // more would take long: we count what each block reads from each other block
constexpr Index fewest_rows = 16;       // of a block; smaller blocks would need as much memory
constexpr Index most_counted_rows = Index(1) << 28;  // of a sequence for which unit_cost() counts phase 1

double seconds_of(const Problem& problem, double kept, int products, const core::Machine& machine) {
  return 1e-9 * strategies::flops_of(problem.shape, kept, products) * seconds_per_gflop(problem, machine);
}

/// Returns the seconds of compute, without reading, of the longest unit.
double longest_unit(const Problem& problem, Index block_rows, const core::Machine& machine) {
  const pattern::KeptCounts counts(problem.layout());
  const Index n = problem.shape.sequence;
  double most = 0;
  for (Index begin = 0; begin < n; begin += block_rows) {
    most = std::max(most, double(counts.of(core::Interval{begin, std::min(n, begin + block_rows)})));
  }
  return seconds_of(problem, most, problem.gradients ? 5 : 2, machine);
}

pattern::Partition blocks_of(Problem problem, Index block_rows) {
  problem.block_size = block_rows;
  return strategies::find("stream")->partition(problem, 1);
}

/// True if blocks of this many rows give every rank enough units, and no unit takes longer than most_unit_seconds.
bool is_short(const Problem& problem, Index block_rows, int ranks, const core::Machine& machine) {
  const Index units = problem.shape.batch * core::ceil_div(problem.shape.sequence, block_rows);
  return units >= (ranks == 1 ? 1 : units_per_rank * ranks) &&
         longest_unit(problem, block_rows, machine) <= most_unit_seconds;
}

/// To predict the cost of a cut into at most most_blocks blocks, we count for at most this many pairs of blocks what
/// one block reads from the other. The counting takes about a second.
constexpr Index most_lookups = Index(1) << 17;

}  // namespace

strategies::UnitCost unit_cost(const strategies::BlockPasses& passes, const Problem& problem, int phase, Index block) {
  if (phase == 0 || problem.shape.sequence <= most_counted_rows) return passes.cost(phase, block);
  UnitCost cost = passes.cost(0, block);
  cost.products = 4;
  cost.bytes_read *= 2;
  return cost;
}

std::string why_no_stream(const Problem& problem) {
  const strategies::Statistics& wanted = problem.statistics;
  if (wanted.received || wanted.top_keys > 0) return "it does not make the statistics received and top";
  return "";
}

StreamCut stream_cut(const Problem& problem, bool dlse, Index block_rows, const core::Machine& machine) {
  const strategies::BlockPasses passes(problem, blocks_of(problem, block_rows), dlse);
  StreamCut cut{.block_rows = block_rows, .blocks = passes.blocks(), .units = passes.units()};
  // unit_cost() counts what a block reads from each other block. If there are many blocks, we take the costs of some
  // blocks at equal distances, as samples.
  const Index samples =
      std::clamp<Index>(most_lookups / passes.blocks(), std::min<Index>(8, passes.blocks()), passes.blocks());
  const bool is_counted = passes.phases() == 1 || problem.shape.sequence <= most_counted_rows;
  if (samples < passes.blocks() || !is_counted) cut.accuracy = pattern::Accuracy::estimate;
  const double entries = double(problem.shape.batch) * double(passes.blocks()) / double(samples);
  for (int phase = 0; phase < passes.phases(); ++phase) {
    for (Index i = 0; i < samples; ++i) {
      const Index block = samples == 1 ? 0 : i * (passes.blocks() - 1) / (samples - 1);
      const UnitCost unit = unit_cost(passes, problem, phase, block);
      const double seconds = seconds_of(problem, double(unit.kept), unit.products, machine);
      cut.memory_bytes = std::max(cut.memory_bytes, double(unit.memory_bytes));
      cut.unit_seconds = std::max(cut.unit_seconds, seconds);
      cut.compute_seconds += entries * seconds;
      cut.bytes_read += entries * double(unit.bytes_read);
      cut.bytes_written += entries * double(unit.bytes_written);
      comm::watchdog_progress();  // other ranks may be waiting for this rank
    }
  }
  return cut;
}

StreamCut choose_stream_cut(const Problem& problem, bool dlse, int ranks, const core::Machine& machine) {
  const Index n = problem.shape.sequence;
  if (problem.block_size > 0) return stream_cut(problem, dlse, std::min(n, problem.block_size), machine);
  const Index full_speed_rows = kernels::attend_block_rows(problem.backend, problem.shape, problem.precision);
  const Index apart = problem.grid().widest();  // largest distance between possible cuts; no block is smaller
  const Index least = std::max({fewest_rows, core::ceil_div(n, most_blocks), apart});
  Index rows = apart * Index(std::bit_ceil(std::uint64_t(core::ceil_div(n, apart))));
  while (rows / 2 >= std::max(full_speed_rows, least) && !is_short(problem, rows, ranks, machine)) rows /= 2;
  for (;; rows /= 2) {
    const StreamCut cut = stream_cut(problem, dlse, std::min(rows, n), machine);
    if (cut.memory_bytes <= machine.memory_per_rank || rows / 2 < least) return cut;
  }
}

/// Blocks are read while the kernel works, so reading costs only the time that compute does not hide.
Cost cost_of_stream(const StreamCut& cut, int ranks, const core::Machine& machine) {
  const double busy_ranks = double(std::min<Index>(ranks, cut.units));
  const double read = cut.bytes_read / machine.read_rate / busy_ranks;
  Cost cost;
  cost.compute_seconds = std::max(cut.compute_seconds / busy_ranks, cut.unit_seconds);
  cost.exposed_seconds = std::max(0.0, read - machine.overlap * cost.compute_seconds);
  cost.seconds = cost.compute_seconds + cost.exposed_seconds;
  cost.memory_bytes = cut.memory_bytes;
  cost.balance = double(ranks) / busy_ranks;
  cost.accuracy = cut.accuracy;
  return cost;
}

std::optional<StreamCut> offer_stream(StreamOffer offer, const Problem& problem, bool dlse, int ranks,
                                      const core::Machine& machine, Choice& choice) {
  if (offer == StreamOffer::never || (choice.fits && offer == StreamOffer::if_needed)) return std::nullopt;
  if (!why_no_stream(problem).empty()) return std::nullopt;
  const StreamCut cut = choose_stream_cut(problem, dlse, ranks, machine);
  const Cost cost = cost_of_stream(cut, ranks, machine);
  choice.candidates.push_back({strategies::find("stream"), {}, cost, {}});
  if (choice.fits || cut.memory_bytes > machine.memory_per_rank) return cut;
  choice.taken = choice.candidates.size() - 1;
  choice.fits = true;
  choice.reason = fmt::format(
      "stream: predicted {:.3g} s in {} blocks of {} rows, {} per rank; none of the others fits into {} per rank ({})",
      cost.seconds, cut.blocks, cut.block_rows, core::describe_bytes(cut.memory_bytes),
      core::describe_bytes(machine.memory_per_rank), machine.why_this_memory());
  return cut;
}

}  // namespace annulus::planner
