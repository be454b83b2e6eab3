// A run is a list of units that are finished one by one: NAME.part holds the result's numbers, NAME.journal says which
// units are in it. A run of several units that was interrupted goes on from there, with any number of ranks, and
// several launches (tasks of a job array) may work on one. A run of one unit leaves nothing when it ends early.
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

/// How a problem is cut, chosen once for the whole run, whatever P and memory are when it goes on.
///   strategy  that computes it
///   numbers   what the strategy needs to cut again in the same way: {"block_rows": 524288}
///   phases    units of each phase, counted from 0; no unit of a phase is begun before all of those before are finished
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

/// What an earlier launch has written down for this output, if there is one to go on from: to be looked at before
/// strategy, cut and memory are decided. Collective; throws the same Error on every rank where it is of other settings,
/// another input or version.
std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm);

/// Why units are left, with what to do, and the exit status: 0 where another launch works on them, else that of a run
/// that was stopped. No words: none are left.
struct WhyUnfinished {
  std::string words;
  int status = 0;
};

/// Launches that begin at the same time find nothing recorded, and cut as memory and ranks of each say. The first one's
/// cuts count: recorded_cuts() gives them now.
class AnotherLaunchBegan : public comm::AgreedError {
 public:
  using comm::AgreedError::AgreedError;
};

class LongRun {
 public:
  /// Lays out NAME.part and NAME.journal with these cuts, or opens those that are there (`cuts` are then what
  /// recorded_cuts() gave). `scratch` are tensors that are stored beside the result for later phases and are no part of
  /// it. Collective; throws the same Error on every rank, AnotherLaunchBegan where those that are there have other
  /// cuts.
  LongRun(const Job& job, const Cuts& cuts, const std::vector<store::TensorSpec>& scratch,
          const comm::Communicator& comm);
  ~LongRun();
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  // One unit after another, by each rank on its own (strategy stream):

  /// The next unit for this rank; none: all are finished or in other ranks' hands, or a stop was asked for. Waits where
  /// a phase cannot begin yet. Local.
  std::optional<Unit> claim();
  /// The unit is computed and written: flushes what this rank wrote, then notes it in the journal, with what
  /// sink_gradients.hpp has to say of it. Local.
  void finish(const Unit& unit, const std::string& sink_note = "");

  // One unit after another, by all ranks together (a whole run, passes):

  /// The same for all ranks together: the same unit on each; collective.
  std::optional<Unit> claim_together();
  /// Collective.
  void finish_together(const Unit& unit, const std::string& sink_note = "");

  // Numbers:

  /// What the units read: the run's input (or what is generated), and results and scratch of phases before.
  core::RowSource& source();
  /// Where each rank writes on its own, and all ranks together; nullptr where the result is complete already.
  core::RowSink* sink();
  store::OutputFile* output();

  /// Share of the units that are finished, as far as this rank knows.
  double finished_share() const;
  /// Units that were finished when this launch began.
  Index found_finished() const;

  /// After the last claim(). Where all units are finished: adds dsink and the record and gives the file its final name;
  /// true on every rank of the launch that does. False: a stop was asked for, or another launch works on the rest;
  /// why_unfinished() then says so in words, with what to do. `record` is called on every rank. Collective.
  bool complete(const std::function<store::Record()>& record);
  /// After complete(): a stop was asked for on some rank, and units are left. The same on every rank.
  bool is_stopped() const;
  WhyUnfinished why_unfinished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace annulus::app
