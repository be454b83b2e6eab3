#include "annulus/app/job/long_run.hpp"

#include <poll.h>
#include <unistd.h>

#include <sstream>

#include "annulus/app/job/run_identity.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/print.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/journal.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;
using core::StoredTensor;

/// The datasets of the result, and the scratch tensors.
std::vector<store::PartTensor> part_tensors(const Job& job, const std::vector<store::TensorSpec>& scratch) {
  const strategies::Problem& problem = job.problem;
  std::vector<store::PartTensor> all;
  const auto add = [&](const store::TensorSpec& spec, bool is_scratch) {
    const std::optional<StoredTensor> tensor = core::stored_tensor(spec.name);
    const std::optional<core::DType> memory = job.layer ? problem.type
                                              : tensor  ? strategies::memory_type_of(problem, *tensor)
                                                        : spec.type.dtype();  // for dsink, which is no StoredTensor
    all.push_back({spec, memory.value_or(store::bits_of_int64), is_scratch});
  };
  for (const store::TensorSpec& spec : job.results) add(spec, false);
  for (const store::TensorSpec& spec : scratch) add(spec, true);
  return all;
}

[[noreturn]] void refuse_without_locks(const RunPaths& paths) {
  fail(ErrorKind::failure,
       "{}: this file system has no locks, which ranks of strategy stream need to share blocks: run it with one rank, "
       "or put output.file on another file system",
       paths.journal);
}

[[noreturn]] void refuse(const RunPaths& paths, const std::vector<std::string>& changes,
                         const store::Journal& journal) {
  if (const auto worker = journal.worker()) {
    fail(ErrorKind::failure,
         "{}: {} makes this output, with other settings, input or program than these: {}; wait for it, or name another "
         "output{}",
         paths.result, *worker, fmt::join(changes, "; "), journal.if_gone(paths.part));
  }
  fail(ErrorKind::failure,
       "{}: an interrupted run has begun {}, and with other settings, input or program than these: {}; go back to what "
       "it was, name another output, or discard what it has finished: annulus run --restart",
       paths.journal, paths.result, fmt::join(changes, "; "));
}

}  // namespace

RunPaths::RunPaths(const Request& request)
    : result(runfile::follow_links(request.run.settings.output.file)),
      part(result + ".part"),
      journal(result + ".journal") {}

std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm) {
  if (!request.run.settings.output.writes_file()) return std::nullopt;
  const std::string identity = comm::from_root(comm, [&]() -> std::string {
    const RunPaths paths(request);
    const comm::BlockingScope inside("the look at " + paths.journal);
    std::optional<store::Journal> journal = store::Journal::find(paths.journal);
    if (!journal || journal->head() == store::whole_head || restart) return "";
    if (journal->done() == 0 && !journal->worker()) return "";  // no unit is finished, so beginning anew loses nothing
    const std::vector<std::string> found = changes(*journal, request, /*is_decided=*/false);
    if (!found.empty()) refuse(paths, found, *journal);
    const std::string& named = request.run.settings.distribution.strategy;
    const Cuts cuts = cuts_of(journal->head(), paths.journal);
    if (named != "auto" && named != cuts.strategy) {
      refuse(paths, {fmt::format("distribution.strategy: {} -> {}", cuts.strategy, named)}, *journal);
    }
    const auto partition = cuts.numbers.find("partition");
    const bool is_recorded = partition != cuts.numbers.end();
    const auto& asked = request.run.settings.distribution.partition;
    const bool has_own = cuts.strategy == "single" || cuts.strategy == "stream";  // which have only one partition
    if (asked && !has_own && !(is_recorded && Index(*asked) == partition->second)) {
      const auto was = is_recorded ? pattern::name_of(pattern::PartitionKind(partition->second)) : "auto";
      refuse(paths, {fmt::format("distribution.partition: {} -> {}", was, pattern::name_of(*asked))}, *journal);
    }
    const auto block = request.run.settings.distribution.block_size;
    if (block && cuts.strategy == "stream") {
      const Index was = cuts.numbers.at("block_rows"), now = std::min(*block, request.problem.shape.sequence);
      if (now != was) refuse(paths, {fmt::format("distribution.block_size: {} -> {}", was, now)}, *journal);
    }
    return journal->head();
  });
  if (identity.empty()) return std::nullopt;
  return cuts_of(identity, request.run.settings.output.file + ".journal");
}

/// True if this launch can continue the files of another launch, which may have begun after recorded_cuts(). Call it on
/// rank 0.
bool LongRun::accept(const store::Journal& found, const store::PartLayout& layout) const {
  const std::vector<std::string> other = changes(found, job_, /*is_decided=*/true);
  if (!other.empty()) refuse(paths_, other, found);
  if (!(cuts_of(found.head(), paths_.journal) == cuts_)) return false;
  const bool is_named = store::is_taken(paths_.result) && store::state_of(paths_.result).inode == layout.inode;
  const bool is_over = found.is_recording() && found.done() == units();
  // On file systems without RENAME_NOREPLACE, a launch gives the final name by link() and unlink(). If it is killed
  // between the two calls, both names are left.
  if (is_named && is_over && store::is_taken(paths_.part) && store::state_of(paths_.part).inode == layout.inode &&
      !found.worker()) {
    unlink(paths_.part.c_str());
  }
  const bool has_name = is_named && !store::is_taken(paths_.part);
  // Users may rename an unfinished part file, so a file with the result's name is complete only if the run is over.
  if (has_name && is_over) return true;
  if (has_name) {
    fail(ErrorKind::failure, "{}: is the unfinished file {} under another name: give it back its own, and run again",
         paths_.result, paths_.part);
  }
  if (!store::is_taken(paths_.part)) {
    fail(ErrorKind::failure,
         "{}: is gone, with all that {} says is finished: put it back, or begin anew with annulus run --restart",
         paths_.part, paths_.journal);
  }
  if (!found.has_locks()) {
    if (comm_.size() > 1 && cuts_.strategy == "stream") refuse_without_locks(paths_);
    if (const auto worker = found.neighbour()) {
      fail(ErrorKind::failure,
           "{}: {} works on this run, and launches cannot share it, because this file system has no locks: wait for it",
           paths_.journal, *worker);
    }
  }
  store::check_can_be_made(paths_.result, job_.run.settings.output.overwrite);
  return true;
}

/// Sets where the rows of every tensor are: in the input, or in the part file, to which earlier phases wrote them.
void LongRun::put_origins() {
  // Strategy stream needs finite numbers when it reads. For other strategies, AttentionWork checks the numbers later.
  put_inputs(job_, job_.is_streamed() ? store::Wanted::finite_numbers : store::Wanted::any_numbers, rows_);
  store::PartFile* part = output_.part();
  if (part == nullptr || cuts_.phases.size() == 1) return;
  for (const store::PartTensor& tensor : tensors_) {
    const std::optional<StoredTensor> stored = core::stored_tensor(tensor.spec.name);
    if (stored) rows_.put(*stored, part->place(tensor.spec.name));
  }
}

/// Reads the units that earlier launches have finished; each rank reads some of them. A unit whose numbers have changed
/// on disk is computed again. Reads nothing while another launch works, because that launch may be using the units. If
/// another launch begins to work during this check, a changed unit is an error.
void LongRun::check_finished() {
  const bool skip = output_.part() == nullptr || journal().is_recording() || journal().worker(output_.launch());
  if (comm_.max(Index(skip)) > 0) return;
  std::string found;  // lines for the journal
  comm::agree(comm_, [&] {
    for (const auto& [unit, text] : journal().checks()) {
      if ((unit.phase + unit.index) % comm_.size() != comm_.rank()) continue;
      const auto changed = output_.part()->changed(store::parse_checks(text));
      if (changed.empty()) continue;
      core::print_to_stderr("annulus: warning: {}: {} of unit {} changed on disk after it was finished\n", paths_.part,
                            fmt::join(changed, ", "), unit.index);
      found += fmt::format("again {} {}\n", unit.phase, unit.index);
    }
  });
  const std::vector<std::string> of_ranks = comm_.gather_all(found);
  comm::on_root(comm_, [&] { compute_again(fmt::format("{}", fmt::join(of_ranks, ""))); });
  comm::agree(comm_, [&] { (void)lock_journal(); });  // locking reads the lines that rank 0 wrote
}

/// Writes lines to the journal that say which units are to be computed again.
void LongRun::compute_again(const std::string& lines) {
  if (lines.empty()) return;
  std::optional<store::Journal::Lock> locked = lock_journal();
  if (!locked) return;
  if (const auto worker = journal().worker(output_.launch())) {
    fail(ErrorKind::failure,
         "{}: numbers that were finished have changed on disk, and {} works with them: stop it, and run again",
         paths_.part, *worker);
  }
  std::istringstream each(lines);
  for (std::string line; std::getline(each, line);) locked->write(line);
}

void LongRun::note_done(const Unit& unit, const store::UnitChecks& checks, const std::string& sink_note) {
  store::Journal::Lock lock(journal());
  output_.part()->write_borders();
  lock.write(fmt::format("check {} {} {}", unit.phase, unit.index, store::text_of(checks)));
  lock.write(fmt::format("done {} {} {}", unit.phase, unit.index, sink_note));
  lock.flush();
}

LongRun::LongRun(const Job& job, const Cuts& cuts, const std::vector<store::TensorSpec>& scratch,
                 const comm::Communicator& comm)
    : job_(job),
      cuts_(cuts),
      comm_(comm),
      paths_(job),
      keeps_(units() > 1),
      tensors_(part_tensors(job, scratch)),
      output_(open_output()) {
  if (!output_.is_open()) {
    throw AnotherLaunchBegan(ErrorKind::failure,
                             paths_.journal + ": another launch has cut this run into other units; run again");
  }
  comm::agree(comm, [&] {
    if (keeps_ && !journal().has_locks() && comm.size() > 1 && cuts.strategy == "stream") refuse_without_locks(paths_);
    if (!job.layer) put_origins();
  });
  if (!keeps_) return;
  check_finished();
  found_finished_ = finished();
  if (comm.is_root() && found_finished_ > 0) {
    const bool chosen = job.run.settings.distribution.strategy == "auto";  // now `auto` might choose another strategy
    core::print_to_stderr("annulus: going on: {} of {} units are finished{}\n", found_finished_, units(),
                          chosen ? fmt::format(", with strategy {}, as it was begun", cuts.strategy) : "");
  }
  watch_for_stop(comm, job.run.settings.distribution.stall_timeout,
                 {/*seconds=*/18,
                  "annulus: stopped on request in the middle of a unit; finished units are kept: run again to "
                  "continue\n",
                  /*only_after_term=*/true});  // not after USR1: units may take hours (job_scripts/generic/long.sbatch)
}

store::OutputFile LongRun::open_output() {
  // This must come before OutputFile writes this rank into the journal. After that, finished units are kept.
  if (keeps_) end_on_signals(comm_, "what is finished stays so: run again to continue");
  store::OutputPlan plan{store::target_of(job_.run.settings.output), tensors_};
  plan.keeps_units = keeps_;
  if (!keeps_) return store::OutputFile(plan, comm_);
  if (comm_.is_root()) plan.head = identity_text(job_, cuts_);
  return store::OutputFile(plan, comm_, [this](const store::Journal& found, const store::PartLayout& layout) {
    return accept(found, layout);
  });
}

/// True if another launch has completed the result: then the journal is removed, and the part file has the result's
/// name.
bool LongRun::is_over() const {
  return keeps_ && !journal().is_there() &&
         output_.has_final_name(store::PartLayout::parse(journal().part(), paths_.journal));
}

/// Locks the journal. Returns nothing if the run is over.
std::optional<store::Journal::Lock> LongRun::lock_journal() {
  try {
    return std::optional<store::Journal::Lock>(std::in_place, journal());
  } catch (const core::Error&) {
    if (is_over()) return std::nullopt;
    throw;
  }
}

void LongRun::check_input() const {
  if (job_.input && !job_.layer) store::check_unchanged(job_.input->inspected());
}

WhyUnfinished LongRun::why_unfinished() const {
  if (is_over()) return {paths_.result + " is complete: another launch has done the rest"};
  const std::string there =
      fmt::format("{} of {} units of {} are finished and stay so", finished(), units(), paths_.result);
  if (stopped_) return {"stopped on request: " + there + "; run again to continue", stopped_status};
  if (const auto worker = journal().worker(output_.launch()))
    return {fmt::format("{}; {} works on the rest", there, *worker)};
  return {there + "; run again for the rest: a process that has ended had begun it", stopped_status};
}

/// Claims the first unit that no process has claimed. If there is none, `wait` says whether a later phase may have one.
std::optional<Unit> LongRun::claim_locked(bool& wait) {
  wait = false;
  std::optional<store::Journal::Lock> locked = lock_journal();
  if (!locked) return std::nullopt;
  if (stop_requested() && !journal().is_stopped(output_.launch())) {
    locked->write(fmt::format("stop {}", output_.launch()));
  }
  stopped_ = stopped_ || journal().is_stopped(output_.launch());
  for (Index phase = 0; !stopped_ && phase < Index(cuts_.phases.size()); ++phase) {
    const Index units = cuts_.phases[std::size_t(phase)];
    if (journal().done_in(phase) == units) continue;
    for (Index i = 0; i < units; ++i) {
      const Unit unit{phase, i};
      if (journal().is_done(unit) || journal().is_claimed(unit)) continue;
      locked->write(fmt::format("claim {} {} {}", phase, i, journal().self()));
      return unit;
    }
    wait = phase + 1 < Index(cuts_.phases.size());  // until other processes finish this phase
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Unit> LongRun::claim() {
  if (output_.part() == nullptr) return std::nullopt;
  if (!keeps_) return claimed_++ == 0 && comm_.is_root() ? std::optional<Unit>(Unit{}) : std::nullopt;
  std::optional<comm::Waiting> waiting;
  for (;;) {
    bool wait = false;
    const std::optional<Unit> unit = claim_locked(wait);
    if (unit && unit->phase != phase_) {  // a new phase reads what ranks on other machines may have written
      phase_ = unit->phase;
      output_.part()->reopen();
      put_origins();
    }
    if (unit || !wait) return unit;
    poll(nullptr, 0, /*ms=*/100);
    // While another launch works, this rank waits without limit. Otherwise this rank waits for a rank of its own
    // launch, and `waiting` ends the run if that rank makes no progress.
    if (journal().worker(output_.launch())) {
      waiting.reset();
      comm::watchdog_progress();
    } else {
      if (!waiting) waiting.emplace();
      waiting->look();
    }
  }
}

void LongRun::finish(const Unit& unit, const std::string& sink_note) {
  output_.part()->flush();
  check_input();
  sink_notes_.push_back(sink_note);
  if (!keeps_) return output_.part()->write_borders();
  note_done(unit, output_.part()->take_checks(), sink_note);
}

std::optional<Unit> LongRun::claim_together() {
  if (output_.part() == nullptr) return std::nullopt;
  if (!keeps_) return claimed_++ == 0 ? std::optional<Unit>(Unit{}) : std::nullopt;
  if (comm_.max(Index(stop_requested())) > 0) stopped_ = true;
  const std::vector<Index> found = comm::numbers_from_root(comm_, [&]() -> std::vector<Index> {
    bool wait = false;
    const std::optional<Unit> unit = stopped_ ? std::nullopt : claim_locked(wait);
    if (!unit) return {};
    return {unit->phase, unit->index};
  });
  if (found.empty()) return std::nullopt;
  return Unit{found.at(0), found.at(1)};
}

void LongRun::finish_together(const Unit& unit, const std::string& sink_note) {
  sink_notes_.push_back(sink_note);
  comm::agree(comm_, [&] {
    if (keeps_ && output_.part()->has_borders()) {  // parts of blocks that this rank wrote to sink()
      const store::Journal::Lock lock(journal());
      output_.part()->write_borders();
    }
    if (keeps_) output_.part()->flush();  // without keeps_, publish() flushes
    check_input();
  });
  if (!keeps_) return;
  const auto checks = store::together(output_.part()->take_checks(), comm_);
  comm::on_root(comm_, [&] { note_done(unit, checks, sink_note); });
}

bool LongRun::complete(const std::function<store::Record()>& record) {
  enum Found { unfinished, ours, done };
  const Index found = comm::numbers_from_root(comm_, [&]() -> std::vector<Index> {
                        if (output_.part() == nullptr) return {done};
                        if (!keeps_) return {ours};
                        std::optional<store::Journal::Lock> locked = lock_journal();
                        if (!locked || finished() < units() || !journal().take_completion()) return {unfinished};
                        locked->write("record");
                        locked->flush();
                        return {ours};
                      }).at(0);
  stopped_ = comm_.max(Index(stopped_)) > 0;
  if (found == unfinished) return false;
  if (found == done) {
    comm::on_root(comm_, [&] { journal().remove(); });
    return true;
  }
  rows_.forget();
  if (job_.problem.sink && job_.problem.gradients) {
    write_dsink(
        job_, [&] { return keeps_ ? journal().notes() : sink_notes_; }, output_, comm_);
  }
  output_.publish(record());
  return true;
}

}  // namespace annulus::app
