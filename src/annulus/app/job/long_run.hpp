// A run is a list of units that are finished one by one. NAME.part has the numbers of the result NAME, and NAME.journal
// says which units are finished. If a run of several units is interrupted, a later launch does the unfinished units, on
// any number of ranks. Several launches (tasks of a job array) may work on one run together. A run of one unit leaves
// no files when it ends early.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

using store::Unit;

/// Returns the cuts that an earlier launch has recorded for this output; empty if there is nothing to continue, or with
/// `restart`. Call it before strategy and cuts are decided. Collective; throws the same Error on every rank if the
/// earlier launch had other settings, another input or another version.
std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm);

/// Removes what an earlier launch has left of this output. Call it only after the new run has passed all other checks.
/// Collective; throws the same Error on every rank if a process still works on the output, or if the output cannot be
/// made.
void forget_earlier(const Request& request, const comm::Communicator& comm);

/// Says why units are unfinished, and what the user can do. `status` is the exit status: 0 if another launch works on
/// these units or has finished them, otherwise stopped_status. `words` is empty if all units are finished.
struct WhyUnfinished {
  std::string words;
  int status = 0;
};

/// Launches that begin at the same time find no recorded cuts, so each cuts the run for its own memory and ranks. The
/// first launch records its cuts. The other launches get this error if they made other cuts; when they try again,
/// recorded_cuts() returns the first launch's cuts.
class AnotherLaunchBegan : public comm::AgreedError {
 public:
  using comm::AgreedError::AgreedError;
};

/// The files that a run writes.
struct RunPaths {
  std::string result, part, journal;

  explicit RunPaths(const Request& request);
};

class LongRun {
 public:
  /// Makes NAME.part and NAME.journal with these cuts. If the files exist, opens them, and `cuts` must be what
  /// recorded_cuts() returned. `scratch`: tensors that later phases read, but that are not in the result. Collective;
  /// throws the same Error on every rank: AnotherLaunchBegan if the existing files have other cuts.
  LongRun(const Job& job, const Cuts& cuts, const std::vector<store::TensorSpec>& scratch,
          const comm::Communicator& comm);

  // Each rank computes units on its own (strategy stream):

  /// Claims the next unit for this rank, after waiting until the unit's phase can begin. Empty if all units are
  /// finished or claimed, or if a stop was requested. Local.
  std::optional<Unit> claim();
  /// Call it when the unit is computed and written. Flushes what this rank wrote, then notes the unit in the journal,
  /// together with `sink_note` (sink_gradients.hpp). Local.
  void finish(const Unit& unit, const std::string& sink_note = "");

  // All ranks compute each unit together (a whole run, slices):

  /// Does the same as claim(), but every rank gets the same unit. Collective.
  std::optional<Unit> claim_together();
  /// Does the same as finish(), for a unit of all ranks. Collective.
  void finish_together(const Unit& unit, const std::string& sink_note = "");

  // The numbers that units read and write:

  /// The rows that the units read: the run's input, from a file or generated, and results and scratch tensors of
  /// earlier phases.
  core::RowSource& source() { return rows_; }
  /// A rank writes to sink() on its own; all ranks write to output() together. Both return nullptr if another launch
  /// has made the result.
  core::RowSink* sink() { return output_.part(); }
  store::OutputFile* output() { return output_.part() == nullptr ? nullptr : &output_; }

  /// The fraction of all units that is finished, as far as this rank knows.
  double finished_share() const { return double(finished()) / double(std::max<Index>(1, units())); }
  /// Number of units that were finished when this launch began.
  Index found_finished() const { return found_finished_; }

  /// Call it after the last claim(). If all units are finished, adds dsink and the record, and gives the file its final
  /// name. Calls `record` on every rank to make the record. Returns true on every rank of the launch that does this, or
  /// that found the file under its final name when the launch began. Otherwise returns false, and why_unfinished() says
  /// why. Collective.
  bool complete(const std::function<store::Record()>& record);
  /// True if a stop was requested on some rank. The same on every rank. Call it after complete().
  bool is_stopped() const { return stopped_; }
  WhyUnfinished why_unfinished() const;

 private:
  Index units() const { return std::accumulate(cuts_.phases.begin(), cuts_.phases.end(), Index(0)); }
  Index finished() const { return keeps_ ? journal().done() : claimed_; }
  store::Journal& journal() { return output_.journal(); }
  const store::Journal& journal() const { return output_.journal(); }
  store::OutputFile open_output();
  bool accept(const store::Journal& found, const store::PartLayout& layout) const;
  bool is_over() const;
  std::optional<store::Journal::Lock> lock_journal();
  void put_origins();
  std::optional<Unit> claim_locked(bool& wait);
  void check_finished();
  void compute_again(const std::string& lines);
  void note_done(const Unit& unit, const store::UnitChecks& checks, const std::string& sink_note);
  void check_input() const;

  const Job& job_;
  const Cuts cuts_;
  const comm::Communicator& comm_;
  const RunPaths paths_;
  const bool keeps_;  // true if finished units are kept when the run ends early
  const std::vector<store::PartTensor> tensors_;
  store::OutputFile output_;
  store::FileRows rows_;
  Index found_finished_ = 0;
  Index claimed_ = 0;                    // number of claimed units if `keeps_` is false: then no claim is on disk
  std::vector<std::string> sink_notes_;  // notes of finished units, used if `keeps_` is false
  Index phase_ = 0;
  bool stopped_ = false;
};

}  // namespace annulus::app
