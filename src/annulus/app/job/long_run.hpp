// A run is a list of units that are finished one by one. NAME.part has the result's numbers, NAME.journal says which
// units are finished. A run of several units that was interrupted continues from there, with any number of ranks;
// several launches (tasks of a job array) may share it. A run of one unit leaves no files when it ends early.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

/// How a problem is cut. It is chosen once for the whole run; later launches keep it, whatever their ranks and memory.
/// strategy  computes the units
/// numbers   what the strategy needs to cut again in the same way: {"block_rows": 524288}
/// phases    number of units in each phase. A phase begins only when all units of earlier phases are finished
struct Cuts {
  std::string strategy;
  std::map<std::string, Index> numbers;
  std::vector<Index> phases;
  bool operator==(const Cuts&) const = default;
};

struct Unit {
  std::size_t phase = 0;
  Index index = 0;
  bool operator==(const Unit&) const = default;
};

/// The cuts that an earlier launch has recorded for this output, if it can be continued. Call it before strategy, cuts
/// and memory are decided. Collective; throws the same Error on every rank if that launch had other settings, another
/// input or another version.
std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm);

/// Why units are left, what the user can do, and the exit status: 0 if another launch works on them, otherwise that of
/// a stopped run. `words` is empty if no units are left.
struct WhyUnfinished {
  std::string words;
  int status = 0;
};

/// Launches that begin at the same time find no record, so each cuts for its own memory and ranks. Only the cuts of the
/// first launch count: the others get this error, and find them with recorded_cuts().
class AnotherLaunchBegan : public comm::AgreedError {
 public:
  using comm::AgreedError::AgreedError;
};

class LongRun {
 public:
  /// Makes NAME.part and NAME.journal with these cuts, or opens the existing ones; `cuts` are then those of
  /// recorded_cuts(). `scratch`: tensors stored beside the result for later phases, which are no part of it.
  /// Collective; throws the same Error on every rank: AnotherLaunchBegan if the existing files have other
  /// cuts.
  LongRun(const Job& job, const Cuts& cuts, const std::vector<store::TensorSpec>& scratch,
          const comm::Communicator& comm);
  ~LongRun();
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  // Each rank computes units on its own (strategy stream):

  /// The next unit for this rank. Empty if other ranks have finished or claimed all units, or if a stop was requested.
  /// Waits until a phase can begin. Local.
  std::optional<Unit> claim();
  /// Call it when the unit is computed and written. Flushes what this rank wrote, then notes the unit in the journal,
  /// together with `sink_note` (sink_gradients.hpp). Local.
  void finish(const Unit& unit, const std::string& sink_note = "");

  // All ranks compute each unit together (a whole run, slices):

  /// As claim(), but every rank gets the same unit. Collective.
  std::optional<Unit> claim_together();
  /// As finish(). Collective.
  void finish_together(const Unit& unit, const std::string& sink_note = "");

  // The numbers that units read and write:

  /// What the units read: the run's input, from its file or generated, and results and scratch of earlier phases.
  core::RowSource& source();
  /// Each rank alone writes to sink(), all ranks together write to output(). nullptr: the result is complete.
  core::RowSink* sink();
  store::OutputFile* output();

  /// The share of all units that is finished, as far as this rank knows.
  double finished_share() const;
  /// Number of units that were finished when this launch began.
  Index found_finished() const;

  /// Call it after the last claim(). If all units are finished, adds dsink and the record, and gives the file its final
  /// name. True on every rank of the launch that did this. False: a stop was requested, or another launch works on the
  /// rest; see why_unfinished(). Calls `record` on every rank. Collective.
  bool complete(const std::function<store::Record()>& record);
  /// Call it after complete(): a stop was requested on some rank, and units are left. The same on every rank.
  bool is_stopped() const;
  WhyUnfinished why_unfinished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace annulus::app
