// `annulus run --dry-run`: shows what a run would do.
#include <algorithm>
#include <set>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/job.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/slices.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/core/print.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/report/text.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::app {
namespace {

using report::describe_bytes;
using strategies::KeyRound;
using strategies::Prediction;
using strategies::Problem;
using strategies::Schedule;
using strategies::Transfer;
using strategies::Transfers;

constexpr std::size_t lines_shown = 16;  // a table has a line for each of the first 16 ranks or blocks

/// "[0, 64) [128, 192)"; of many intervals only the first ones, so that the line stays short.
std::string rows_text(const pattern::StoredRows& rows) {
  std::string text;
  for (const core::Interval& interval : rows.intervals()) {
    if (text.size() > 60) return text + " ...";
    text += fmt::format("{}[{}, {})", text.empty() ? "" : " ", interval.begin, interval.end);
  }
  return text.empty() ? "none" : text;
}

/// Prints rows, work, memory and traffic of each of the first ranks in one pass, and the largest costs of any rank.
/// `predict` returns the costs of one rank.
void print_pass(const Job& job, const pattern::Partition& partition, PassKind pass,
                const std::function<Prediction(int)>& predict) {
  core::print("# {}\n# {:>5}  {:>10}  {:>7}  {:>10}  {:>10}  {:>10}  {}\n", name_of(pass), "rank", "rows", "work",
              "memory", "sends", "receives", "holds");
  std::vector<Prediction> all;
  double kept = 0;
  for (std::size_t p = 0; p < partition.size(); ++p) {
    all.push_back(predict(int(p)));
    kept += double(all.back().kept);
  }
  for (std::size_t p = 0; p < std::min(all.size(), lines_shown); ++p) {
    core::print("# {:>5}  {:>10}  {:>6.2f}x  {:>10}  {:>10}  {:>10}  {}\n", p, partition[p].count(),
                double(all[p].kept) * double(all.size()) / std::max(kept, 1.0),
                describe_bytes(double(all[p].memory_bytes)), describe_bytes(double(all[p].bytes_sent)),
                describe_bytes(double(all[p].bytes_received)), rows_text(partition[p]));
  }
  const auto most = [&](Index Prediction::*cost) { return double(std::ranges::max(all, {}, cost).*cost); };
  core::print("# {}: at most {} of memory, {} sent, {} received; {:.1f} GFLOP in all\n",
              core::how_many(all.size(), "rank"), describe_bytes(most(&Prediction::memory_bytes)),
              describe_bytes(most(&Prediction::bytes_sent)), describe_bytes(most(&Prediction::bytes_received)),
              1e-9 * flops_of(pass, kept, job.problem.shape));
}

/// Prints the costs of the first blocks of strategy stream, phase by phase. Any rank may compute any block.
void print_blocks(const Job& job) {
  const strategies::BlockPasses passes(job.problem, job.partition, job.run.settings.input.dlse.has_value());
  core::print("# {}; {} read in all, {} written\n", describe_blocks(*job.stream),
              describe_bytes(job.stream->bytes_read), describe_bytes(job.stream->bytes_written));
  for (int phase = 0; phase < passes.phases(); ++phase) {
    core::print("# {}\n# {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}\n",
                phase == 1             ? "dk and dv"
                : passes.phases() == 2 ? "forward, and dq"
                                       : "forward",
                "block", "rows", "GFLOP", "memory", "reads", "writes", "has rows");
    for (Index block = 0; block < std::min<Index>(passes.blocks(), lines_shown); ++block) {
      const strategies::UnitCost unit = planner::unit_cost(passes, job.problem, phase, block);
      core::print("# {:>5}  {:>10}  {:>10.3g}  {:>10}  {:>10}  {:>10}  {}\n", block, passes.rows(block).count(),
                  1e-9 * strategies::flops_of(job.problem.shape, double(unit.kept), unit.products),
                  describe_bytes(double(unit.memory_bytes)), describe_bytes(double(unit.bytes_read)),
                  describe_bytes(double(unit.bytes_written)), rows_text(passes.rows(block)));
    }
  }
}

/// Prints the passes of a layer: the memory of the whole layer, but the work and messages of its attention only.
void print_layer(const Job& job) {
  const layer::LayerProblem& problem = *job.layer;
  const int ranks = int(job.partition.size());
  const pattern::Partition partition = layer::partition_of(problem, *job.strategy, ranks);
  std::vector<layer::MemoryPrediction> memory;  // one for each rank
  for (int p = 0; p < ranks; ++p) memory.push_back(layer::predict_memory(problem, *job.strategy, partition, p));
  core::print("# layer: {}; weights of {} on rank 0. Memory: the whole layer; work and messages: its attention only\n",
              describe_layer(job), describe_bytes(double(memory[0].weights)));
  const auto print = [&](bool backward) {
    print_pass(job, partition, backward ? PassKind::backward : PassKind::forward, [&](int rank) {
      Prediction one = layer::predict_attention(problem, *job.strategy, partition, rank, backward);
      one.memory_bytes = backward ? memory[std::size_t(rank)].backward : memory[std::size_t(rank)].forward;
      return one;
    });
  };
  print(false);
  if (job.problem.gradients || job.run.settings.train) print(true);
  if (!job.run.settings.train) return;
  core::print("# training: at most {} of memory, the target included\n",
              describe_bytes(double(std::ranges::max(memory, {}, &layer::MemoryPrediction::training).training)));
}

constexpr std::size_t steps_shown = 24;  // this many steps have their own line; the line "sum" is for all steps

/// "1024 x 16": the mean number of rows per head, and the strides between these rows.
std::string rows_text(const pattern::KeyRows& rows, Index heads) {
  std::set<Index> strides;
  for (const auto& owned : rows.owned()) {
    for (const auto& ranges : owned.heads) {
      for (const auto& stored : ranges) strides.insert(stored.range.stride);
    }
  }
  const Index count = rows.is_packed() ? rows.count() / std::max<Index>(heads, 1) : rows.count();
  return strides.empty() ? "-" : fmt::format("{} x {}", count, fmt::join(strides, ","));
}

Index bytes_of(const std::vector<Transfer>& all) {
  Index bytes = 0;
  for (const Transfer& one : all) bytes += one.bytes;
  return bytes;
}

/// Transfers as text. `word` is "from" or "to": "4.0 MiB from 0"; "8.0 MiB from 2 ranks"; "8.0 MiB from all" in a
/// collective; "-" if there is no transfer.
std::string transfers_text(const std::vector<Transfer>& all, const char* word) {
  if (all.empty()) return "-";
  std::set<int> ranks;
  for (const Transfer& one : all) ranks.insert(one.rank);
  const std::string size = describe_bytes(double(bytes_of(all)));
  if (ranks.size() > 1) return fmt::format("{} {} {} ranks", size, word, ranks.size());
  return all[0].rank == strategies::every_rank ? fmt::format("{} {} all", size, word)
                                               : fmt::format("{} {} {}", size, word, all[0].rank);
}

class Printer {
 public:
  Printer(const Schedule& schedule, int rank) : schedule_(schedule), rank_(rank) {}

  void print() const {
    const bool backward = schedule_.sums() != nullptr;
    core::print("# {:>5}  {:<10} {:>16}  {:>7}  {:<20} {:<20}{}\n", "step", "keys of", "rows x stride", "work",
                "meanwhile receive", "meanwhile send", backward ? " sums received         sums sent" : "");
    for (std::size_t i = 0; i < schedule_.rounds().size(); ++i) {
      if (schedule_.rounds().size() > 1) core::print("# pair {} of {}\n", i + 1, schedule_.rounds().size());
      print_round(schedule_.keys().round(i), backward ? &schedule_.sums()->round(i) : nullptr);
    }
  }

 private:
  double all_work() const { return double(schedule_.kept(rank_)); }
  const pattern::StoredRows& rows() const { return schedule_.partition()[std::size_t(rank_)]; }
  /// Returns how many (query, key, head) triples a round keeps. A single round has all of the rank's work; kept_of()
  /// would be wrong if this rank computes the queries of all ranks, because it counts only the rank's own queries.
  double work_of(const Problem& round) const {
    return schedule_.rounds().size() == 1 ? all_work() : double(strategies::kept_of(round, rows()));
  }

  void print_round(const KeyRound& keys, const strategies::SumRound* sums) const {
    const std::size_t of_keys = keys.steps(rank_), of_sums = sums != nullptr ? sums->steps(rank_) : 0;
    const std::size_t steps = std::max(of_keys, of_sums);
    Index received = 0, sent = 0, sums_received = 0, sums_sent = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      const Transfers moved = s < of_keys ? keys.transfers(rank_, s) : Transfers{};
      const Transfers added = s < of_sums ? sums->transfers(rank_, s) : Transfers{};
      received += bytes_of(moved.received);
      sent += bytes_of(moved.sent);
      sums_received += bytes_of(added.received);
      sums_sent += bytes_of(added.sent);
      if (s == steps_shown) core::print("# {:>5}  {} more steps\n", "...", steps - s);
      if (s >= steps_shown) continue;
      print_step(keys, s, s < of_keys);
      core::print("{:<20} {:<20}", transfers_text(moved.received, "from"), transfers_text(moved.sent, "to"));
      if (sums != nullptr) {
        core::print(" {:<21} {}", transfers_text(added.received, "from"), transfers_text(added.sent, "to"));
      }
      core::print("\n");
    }
    core::print("# {:>5}  {:<10} {:>16}  {:>6.3g} M  {:<20} {:<20}", "sum", "", "", 1e-6 * work_of(keys.problem()),
                describe_bytes(double(received)), describe_bytes(double(sent)));
    if (sums != nullptr) {
      core::print(" {:<21} {}", describe_bytes(double(sums_received)), describe_bytes(double(sums_sent)));
    }
    core::print("\n");
  }

  /// Prints a step's number, the owner and the rows of its keys, and the step's share of the work in per cent. A step
  /// without keys (`has_keys` is false) only moves sums.
  void print_step(const KeyRound& keys, std::size_t s, bool has_keys) const {
    std::vector<std::string> owners, forms;
    core::Count kept = 0;
    for (std::size_t channel = 0; has_keys && channel < keys.channels(); ++channel) {
      const strategies::KeyBlock block = keys.form(rank_, s, channel);
      if (block.rows.count() == 0 || (s == 0 && !keys.computes_own(channel))) continue;
      const int owner = keys.owner(rank_, s, channel);
      const std::string name = owner == strategies::every_rank ? "all"
                               : s == 0                        ? fmt::format("{} (own)", owner)
                                                               : std::to_string(owner);
      if (owners.empty() || owners.back() != name) owners.push_back(name);
      forms.push_back(rows_text(block.rows, schedule_.problem().shape.kv_heads));
      kept += strategies::kept_between(keys.problem(), keys.queries(rank_, channel), block.rows);
    }
    core::print("# {:>5}  {:<10} {:>16}  {:>5.1f} %  ", s, fmt::format("{}", fmt::join(owners, ", ")),
                fmt::format("{}", fmt::join(forms, " + ")), 100 * double(kept) / std::max(1.0, all_work()));
  }

  const Schedule& schedule_;
  const int rank_;
};

void print_steps(const Job& job, const Schedule& schedule, int rank, std::string_view pass) {
  const strategies::Prediction all = schedule.predict(rank);
  core::print("# {}, {}, rank {} of {}, rows {}: memory {}, sends {}, receives {}\n", job.strategy->name(), pass, rank,
              job.partition.size(), rows_text(job.partition[std::size_t(rank)]),
              describe_bytes(double(all.memory_bytes)), describe_bytes(double(all.bytes_sent)),
              describe_bytes(double(all.bytes_received)));
  if (!schedule.has_exchange()) return Printer(schedule, rank).print();
  if (schedule.gathers_queries()) {
    const Schedule& inner = schedule.of_all_queries();
    core::print(
        "# it gets all {} queries ({} are its own), computes their attention to its own keys, and returns partial "
        "results:\n",
        inner.row_counts(rank).queries, schedule.row_counts(rank).queries);
    return Printer(inner, rank).print();
  }
  const strategies::HeadGroup group = schedule.group_of(rank);
  const Schedule& across = schedule.across(rank);
  const bool backward = across.sums() != nullptr;
  const Index group_bytes = backward ? group.backward_bytes_received() : group.bytes_received();
  core::print(
      "# it is rank {} of group {} ({} groups): it receives {} from ranks of this group, and computes {} of {} heads "
      "for all rows of the group; in the next lines, the numbers after `keys of`, `from` and `to` are groups:\n",
      group.rank(), group.number(), group.rows().size(), describe_bytes(double(group_bytes)),
      group.narrow().shape.heads, job.problem.shape.heads);
  Printer(across, group.number()).print();
}

/// Prints what a block of strategy stream costs in phase 0 (forward and dq), and what this block reads from other
/// blocks.
void print_block(const Job& job, int block) {
  const strategies::BlockPasses passes(job.problem, job.partition, job.run.settings.input.dlse.has_value());
  const strategies::UnitCost unit = passes.cost(0, block);
  const core::Interval rows = passes.rows(block).intervals().front();
  core::print("# stream, forward{}, block {} of {}, rows [{}, {}): memory {}, reads {}, writes {}\n",
              passes.phases() == 2 ? " and dq" : "", block, passes.blocks(), rows.begin, rows.end,
              describe_bytes(double(unit.memory_bytes)), describe_bytes(double(unit.bytes_read)),
              describe_bytes(double(unit.bytes_written)));
  Printer(passes.forward(), block).print();
}

/// For each pass, prints a line for each of the first steps_shown steps, and a line for the sum of all steps. The work
/// of later steps is not counted step by step, only in the sum. So the schedule of one rank of 65,536 takes seconds
/// (with gradients some tens of seconds), unless an interval of the rank's rows is shorter than the largest dilation.
void print_schedule(const Job& job, int rank) {
  for (const PassKind pass : passes_of(job.problem)) print_steps(job, *schedule_of(job, pass), rank, name_of(pass));
}

}  // namespace

void dry_run(const Job& job, std::optional<int> rank, const comm::Communicator& comm) {
  if (!comm.is_root()) return;
  core::print("# settings, resolved\n{}\n", runfile::resolved_text(job.run.settings));
  core::print("# {}: {}\n# {}\n", job.strategy->name(), describe_pattern(job.problem), describe_tensors(job));
  if (job.goes_on) {
    core::print("# an interrupted run is continued: strategy {}, {} {}\n", job.strategy->name(),
                job.is_streamed() ? Index(job.partition.size()) : job.slice_count(),
                job.is_streamed() ? "blocks" : "passes");
  }
  for (const std::string& note : notes_on(job.problem)) core::print("# note: {}\n", note);
  const core::Machine& machine = job.machine;
  core::print("# memory for a rank: {} ({})\n", describe_bytes(machine.memory_per_rank), machine.why_this_memory());
  if (job.choice) core::print("# auto takes {}\n", job.choice->reason);
  if (const std::string bits = describe_bits(job); !bits.empty()) core::print("# bits: {}\n", bits);
  if (rank && job.layer && job.layer->sharding == layer::Sharding::tensor) {
    core::print("# every rank computes all rows of its heads: the attention moves nothing\n");
    return;
  }
  if (job.is_streamed()) return rank ? print_block(job, *rank) : print_blocks(job);
  const Job shown = job.slice_count() > 1 ? job_of_slice(job, 0) : job;
  if (!job.why_too_large.empty()) core::print("# does not fit: {}\n", job.why_too_large);
  if (job.slice_count() > 1) {
    core::print("# passes over the input: {}; the numbers below are for the first of these\n", describe_passes(job));
  }
  if (rank) return print_schedule(shown, *rank);
  if (job.layer) return print_layer(job);
  for (const PassKind pass : passes_of(shown.problem)) {
    const auto schedule = schedule_of(shown, pass);
    print_pass(shown, shown.partition, pass, [&](int rank) { return schedule->predict(rank); });
  }
}

}  // namespace annulus::app
