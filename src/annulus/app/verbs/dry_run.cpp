#include "annulus/app/verbs/dry_run.hpp"

#include <algorithm>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/passes.hpp"
#include "annulus/app/job/slices.hpp"
#include "annulus/app/verbs/print_schedule.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/report/text.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::app {
namespace {

constexpr std::size_t rows_shown = 16;  // of the table; more ranks are summed up in the last line

std::string rows_text(const pattern::StoredRows& rows) {
  std::string text;
  for (const core::Interval& interval : rows.intervals())
    text += fmt::format("[{}, {}) ", interval.begin, interval.end);
  return text.empty() ? "none" : text;
}

using strategies::Prediction;

/// Rows, work, memory and traffic of every rank in one pass. `predict` tells them of a rank.
void print_pass(const Job& job, const pattern::Partition& partition, PassKind pass,
                const std::function<Prediction(int)>& predict) {
  fmt::print("# {}\n# {:>5}  {:>10}  {:>7}  {:>10}  {:>10}  {:>10}  {}\n", name_of(pass), "rank", "rows", "work",
             "memory", "sends", "receives", "holds");
  std::vector<Prediction> all;
  double kept = 0;
  for (std::size_t p = 0; p < partition.size(); ++p) {
    all.push_back(predict(int(p)));
    kept += double(all.back().kept);
  }
  for (std::size_t p = 0; p < std::min(all.size(), rows_shown); ++p) {
    fmt::print("# {:>5}  {:>10}  {:>6.2f}x  {:>10}  {:>10}  {:>10}  {}\n", p, partition[p].count(),
               double(all[p].kept) * double(all.size()) / std::max(kept, 1.0),
               report::describe_bytes(double(all[p].memory_bytes)), report::describe_bytes(double(all[p].bytes_sent)),
               report::describe_bytes(double(all[p].bytes_received)), rows_text(partition[p]));
  }
  const auto most = [&](Index Prediction::*cost) {
    Index largest = 0;
    for (const Prediction& one : all) largest = std::max(largest, one.*cost);
    return double(largest);
  };
  fmt::print("# {} ranks: at most {} of memory, {} sent, {} received; {:.1f} GFLOP in all\n", all.size(),
             report::describe_bytes(most(&Prediction::memory_bytes)),
             report::describe_bytes(most(&Prediction::bytes_sent)),
             report::describe_bytes(most(&Prediction::bytes_received)), 1e-9 * flops_of(pass, kept, job.problem.shape));
}

/// Blocks of strategy stream, which any rank may compute, phase after phase.
void print_blocks(const Job& job) {
  const strategies::BlockPasses passes(job.problem, job.partition, job.run.settings.input.dlse.has_value());
  fmt::print("# {}; {} read in all, {} written\n", describe_blocks(*job.stream),
             report::describe_bytes(job.stream->bytes_read), report::describe_bytes(job.stream->bytes_written));
  for (int phase = 0; phase < passes.phases(); ++phase) {
    fmt::print("# {}\n# {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}\n",
               phase == 1             ? "dk and dv"
               : passes.phases() == 2 ? "forward, and dq"
                                      : "forward",
               "block", "rows", "GFLOP", "memory", "reads", "writes", "is");
    for (Index block = 0; block < std::min<Index>(passes.blocks(), rows_shown); ++block) {
      const strategies::UnitCost unit = planner::unit_cost(passes, job.problem, phase, block);
      fmt::print("# {:>5}  {:>10}  {:>10.3g}  {:>10}  {:>10}  {:>10}  {}\n", block, passes.rows(block).count(),
                 2e-9 * unit.products * job.problem.shape.mean_dim() * double(unit.kept),
                 report::describe_bytes(double(unit.memory_bytes)), report::describe_bytes(double(unit.bytes_read)),
                 report::describe_bytes(double(unit.bytes_written)), rows_text(passes.rows(block)));
    }
  }
}

/// The passes of a layer: memory of everything, work and messages of its attention. Training is both passes.
void print_layer(const Job& job) {
  const layer::LayerProblem& problem = *job.layer;
  const int ranks = int(job.partition.size());
  const pattern::Partition partition = layer::partition_of(problem, *job.strategy, ranks);
  fmt::print("# layer: {}; weights of {} on rank 0. Memory is the layer's, work and messages are its attention's\n",
             describe_layer(job), report::describe_bytes(double(weight_bytes(problem, 0, ranks))));
  std::vector<layer::MemoryPrediction> memory;  // of the ranks
  for (int p = 0; p < ranks; ++p) memory.push_back(layer::predict_memory(problem, *job.strategy, partition, p));
  const auto print = [&](bool backward) {
    print_pass(job, partition, backward ? PassKind::backward : PassKind::forward, [&](int rank) {
      Prediction one = layer::predict_attention(problem, *job.strategy, partition, rank, backward);
      one.memory_bytes = backward ? memory[std::size_t(rank)].backward : memory[std::size_t(rank)].forward;
      return one;
    });
  };
  print(false);
  if (job.problem.gradients) print(true);
  if (!job.run.settings.train) return;
  Index most = 0;
  for (const layer::MemoryPrediction& one : memory) most = std::max(most, one.training);
  fmt::print("# training: at most {} of memory, the target included\n", report::describe_bytes(double(most)));
}

}  // namespace

int dry_run(const Job& job, std::optional<int> rank, const comm::Communicator& comm) {
  if (!comm.is_root()) return 0;
  fmt::print("# settings, resolved\n{}\n", runfile::resolved_text(job.run.settings));
  fmt::print("# {}: {}\n# {}\n", job.strategy->name(), describe_pattern(job.problem), describe_tensors(job));
  for (const std::string& note : notes_on(job.problem)) fmt::print("# note: {}\n", note);
  const core::Machine& machine = job.machine;
  fmt::print("# memory for a rank: {} ({})\n", report::describe_bytes(machine.memory_per_rank),
             machine.memory_source.empty() ? machine.source : machine.memory_source);
  if (job.choice) fmt::print("# auto takes {}\n", job.choice->reason);
  if (const std::string bits = describe_bits(job); !bits.empty()) fmt::print("# bits: {}\n", bits);
  if (rank && job.layer && job.layer->sharding == layer::Sharding::tensor) {
    fmt::print("# every rank computes all rows of its heads: the attention moves nothing\n");
    return 0;
  }
  if (job.is_streamed()) {
    if (rank) print_block(job, *rank);
    if (!rank) print_blocks(job);
    return 0;
  }
  if (rank) {
    print_schedule(job.slice_count() > 1 ? job_of_slice(job, 0) : job, *rank);
    return 0;
  }
  if (job.layer) {
    print_layer(job);
    return 0;
  }
  if (!job.why_too_large.empty()) fmt::print("# does not fit: {}\n", job.why_too_large);
  if (job.slice_count() > 1) {
    fmt::print("# passes over the input: {}; what follows is of the first\n", describe_passes(job));
  }
  const Job shown = job.slice_count() > 1 ? job_of_slice(job, 0) : job;
  for (const PassKind pass : passes_of(shown.problem)) {
    const auto schedule = schedule_of(shown, pass);
    print_pass(shown, shown.partition, pass, [&](int rank) { return schedule->predict(rank); });
  }
  return 0;
}

}  // namespace annulus::app
