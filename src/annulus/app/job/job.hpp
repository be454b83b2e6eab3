// From a run file to a job: what is asked for, the strategy, and who holds which rows.
#pragma once

#include <memory>
#include <string_view>

#include "annulus/app/job/request.hpp"
#include "annulus/planner/stream_cut.hpp"
#include "annulus/strategies/slices.hpp"

namespace annulus::app {

/// A request with all that is decided about it for a number of ranks.
struct Job : Request {
  explicit Job(Request request) : Request(std::move(request)) {}

  /// It is computed block after block, each rank on its own (stream_work.hpp).
  bool is_streamed() const { return strategy->reads_store(); }

  int ranks = 1;
  core::Machine machine;                  ///< that `auto` goes by
  std::optional<planner::Choice> choice;  ///< of `auto`, with its reason; empty: the run file names a strategy
  const strategies::Strategy* strategy = nullptr;
  pattern::Partition partition;
  std::optional<planner::StreamCut> stream;  ///< how strategy stream cuts it, or (plan) would
  /// Why some rank could use a better instruction set than it does; empty: none could.
  std::string instruction_set_note;

  /// Slices of the problem that are computed one after another; of a layer, or where all of it fits into the memory of
  /// a rank, it is one.
  strategies::SliceSize slices;
  bool reads_ahead = false;  ///< the next slice's inputs fit beside a slice
  double slice_bytes = 0;    ///< of tensors and buffers on the fullest rank, those read ahead included
  /// Why matrix units of all ranks make no reproducible results (strategies::make_reproducible()); empty: they do, or
  /// the results need not be reproducible.
  std::string why_no_granules;
  std::string why_too_large;  ///< why not even the smallest slice fits; empty: it does

  /// A rank's queries, as rows of the sequence.
  pattern::StoredRows held_queries(int rank) const;
  Index slice_count() const { return strategies::slices_of(problem.shape, slices); }
};

/// How an earlier launch cut the problem: to go on with what it has finished, a run has to do it alike.
struct RecordedSlices {
  std::string strategy;
  std::optional<pattern::PartitionKind> partition;
  strategies::SliceSize size;
};

/// What is known of the ranks that a job is for and of their nodes; to find out takes milliseconds.
struct Nodes {
  core::Machine machine;
  Index smallest = 1;  ///< ranks of the smallest node
};

/// A run file, and what decides about the job besides.
struct JobOptions {
  RunFileArguments words;
  Purpose purpose = Purpose::run;
  std::optional<int> ranks{};            ///< empty: those that were launched
  std::optional<std::string> machine{};  ///< a machine file; empty: that of the run file, or the available nodes
  const Nodes* nodes = nullptr;          ///< nodes_of() this, where many jobs are made
  planner::StreamOffer stream = planner::StreamOffer::never;
  std::optional<Index> block_rows{};  ///< strategy stream goes on with blocks that an earlier launch cut
  std::optional<RecordedSlices> recorded{};
};

/// The nodes of `ranks` ranks and the machine of a file, collective; throws as machine_of().
Nodes nodes_of(const std::optional<std::string>& machine_file, int ranks, const comm::Communicator& comm);

/// The one way to a job, for every verb that computes or plans; collective. Throws the same Error on every rank, as
/// read_request(); usage where the strategy cannot do what is asked.
Job make_job(const JobOptions& options, const comm::Communicator& comm);
/// The same of a request that was made already; `options.words` do not matter.
Job make_job(Request request, const JobOptions& options, const comm::Communicator& comm);

// The passes of which a run of attention is made.

/// In the order in which a run makes them.
enum class PassKind { forward, statistics, backward };

constexpr std::string_view name_of(PassKind pass) {
  return pass == PassKind::forward ? "forward" : pass == PassKind::statistics ? "statistics" : "backward";
}

/// Those that the problem asks for.
std::vector<PassKind> passes_of(const strategies::Problem& problem);

/// What the pass is for every rank of the job.
std::unique_ptr<const strategies::Schedule> schedule_of(const Job& job, PassKind pass);

/// Flops of a pass that keeps `kept` (query, key, head) triples. The statistics' pass makes q.k alone, half of a
/// forward pass.
inline double flops_of(PassKind pass, double kept, const core::Shape& shape) {
  if (pass == PassKind::backward) return core::backward_flops(kept, shape);
  return pass == PassKind::statistics ? core::forward_flops(kept, shape.head_dim) / 2
                                      : core::forward_flops(kept, shape);
}

}  // namespace annulus::app
