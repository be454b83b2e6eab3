// Makes a job from a run file: decides the strategy, and which rank holds which rows.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "annulus/app/job/request.hpp"
#include "annulus/planner/stream_cut.hpp"
#include "annulus/strategies/slices.hpp"

namespace annulus::app {

/// A request, together with all decisions that depend on the number of ranks.
struct Job : Request {
  explicit Job(Request request) : Request(std::move(request)) {}

  /// True if each rank computes blocks on its own, one after another (stream_work.cpp).
  bool is_streamed() const { return strategy->reads_store(); }

  int ranks = 1;
  core::Machine machine;                  ///< the machine that `auto` plans for
  std::optional<planner::Choice> choice;  ///< what `auto` chose, and why; empty if `auto` did not choose
  const strategies::Strategy* strategy = nullptr;
  pattern::Partition partition;
  std::optional<planner::StreamCut> stream;  ///< how strategy stream cuts, or would cut, the job; empty: not computed
  /// Says why some rank does not use its best instruction set; empty if every rank does.
  std::string instruction_set_note;

  /// Size of the slices that are computed one after another. If the run continues slices of an earlier launch, slices
  /// keep their size. For a layer and for strategy stream, a slice is the whole problem. Otherwise it is as large as
  /// fits into a rank's memory, or as small as possible if nothing fits. If Problem::has_own_keys(), a slice has at
  /// most one batch entry.
  strategies::SliceSize slices;
  bool reads_ahead = false;  ///< the next slice's inputs fit into memory together with a slice
  double slice_bytes = 0;    ///< bytes of a slice, or of the layer, on the fullest rank, including what is read ahead
  /// Says why matrix units of some rank cannot make reproducible results (strategies::make_reproducible()). Empty if
  /// those of all ranks can, or if results need not be reproducible.
  std::string why_no_granules;
  std::string why_too_large;  ///< why the slices, or the layer, do not fit; empty: they fit
  bool goes_on = false;       ///< the slices or blocks are those of an interrupted run

  /// A rank's rows of q, numbered as rows of the sequence (of k).
  pattern::StoredRows held_queries(int rank) const;
  Index slice_count() const { return strategies::slices_of(problem.shape, slices); }
};

/// Says how a problem is cut into units. The first launch chooses the cuts; later launches keep them on any number of
/// ranks.
/// strategy  computes the units
/// numbers   what the strategy needs to cut again in the same way: {"block_rows": 524288}
/// phases    number of units in each phase. A phase begins only when all units of the phases before it are finished
struct Cuts {
  std::string strategy;
  std::map<std::string, Index> numbers;
  std::vector<Index> phases;
  bool operator==(const Cuts&) const = default;
};

/// The nodes that the ranks of a job are on. nodes_of() takes milliseconds to find them.
struct Nodes {
  core::Machine machine;
  Index smallest = 1;  ///< number of ranks on the smallest node
};

/// A run file, and everything else on which the job depends.
struct JobOptions {
  RunFileArguments words;
  Purpose purpose = Purpose::run;
  std::optional<int> ranks{};            ///< empty: the launched ranks
  std::optional<std::string> machine{};  ///< a machine file in place of the run file's distribution.machine
  const Nodes* nodes = nullptr;          ///< result of nodes_of(), for callers that make many jobs
  planner::StreamOffer stream = planner::StreamOffer::never;
  std::optional<Cuts> recorded{};  ///< the cuts of the earlier launch that the run continues
};

/// Finds the nodes that `ranks` ranks are on, and reads the machine file. Collective. Throws the same errors as
/// machine_of().
Nodes nodes_of(const std::optional<std::string>& machine_file, int ranks, const comm::Communicator& comm);

/// Makes a job. Every verb that computes or plans calls this. Collective. Throws the same Error on every rank, as
/// read_request() does, and Error(usage) if the strategy cannot do what is asked.
Job make_job(const JobOptions& options, const comm::Communicator& comm);
/// The same for a request that exists already; `options.words` is not used.
Job make_job(Request request, const JobOptions& options, const comm::Communicator& comm);

/// Throws Error(usage) if Job::why_too_large is set and the user sets compute.memory_limit, unless the run continues an
/// earlier launch. If the user sets no limit, callers only warn, because the free memory is an estimate.
void check_memory_limit(const Job& job);

// The passes of a run: forward, statistics and backward.

/// Values are in the order in which a run makes the passes.
enum class PassKind { forward, statistics, backward };

constexpr std::string_view name_of(PassKind pass) {
  return pass == PassKind::forward ? "forward" : pass == PassKind::statistics ? "statistics" : "backward";
}

/// The passes that the problem asks for.
std::vector<PassKind> passes_of(const strategies::Problem& problem);

/// Returns the schedule of a pass: what each rank of the job does in this pass.
std::unique_ptr<const strategies::Schedule> schedule_of(const Job& job, PassKind pass);

/// Floating-point operations of a pass that keeps `kept` (query, key, head) triples. The statistics pass computes only
/// q.k, which is half of a forward pass.
inline double flops_of(PassKind pass, double kept, const core::Shape& shape) {
  if (pass == PassKind::backward) return core::backward_flops(kept, shape);
  return pass == PassKind::statistics ? core::forward_flops(kept, shape.head_dim) / 2
                                      : core::forward_flops(kept, shape);
}

}  // namespace annulus::app
