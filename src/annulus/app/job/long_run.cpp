#include "annulus/app/job/long_run.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "annulus/app/job/run_identity.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/journal.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;
using core::StoredTensor;

/// The files that a run writes.
struct Paths {
  std::string result, part, journal;

  explicit Paths(const Request& request)
      : result(runfile::follow_links(request.run.settings.output.file)),
        part(result + ".part"),
        journal(result + ".journal") {}
};

/// The datasets of the result, and the scratch tensors.
std::vector<store::PartTensor> part_tensors(const Job& job, const std::vector<store::TensorSpec>& scratch) {
  const strategies::Problem& problem = job.problem;
  std::vector<store::PartTensor> all;
  const auto add = [&](const store::TensorSpec& spec, bool is_scratch) {
    const std::optional<StoredTensor> tensor = core::stored_tensor(spec.name);
    const std::optional<core::DType> memory = job.layer ? problem.type
                                              : tensor  ? strategies::memory_type_of(problem, *tensor)
                                                        : spec.type.dtype();  // for dsink
    all.push_back({spec, memory.value_or(store::bits_of_int64), is_scratch});
  };
  for (const store::TensorSpec& spec : job.results) add(spec, false);
  for (const store::TensorSpec& spec : scratch) add(spec, true);
  return all;
}

[[noreturn]] void refuse_without_locks(const Paths& paths) {
  fail(ErrorKind::failure,
       "{}: this file system has no locks, which ranks of strategy stream need to share blocks: run it with one rank, "
       "or put output.file on another file system",
       paths.journal);
}

[[noreturn]] void refuse(const Paths& paths, const std::vector<std::string>& changes) {
  fail(ErrorKind::failure,
       "{}: an interrupted run has begun {}, and with other settings, input or program than these: {}; go back to what "
       "it was, name another output, or forget what it has finished with: annulus run --restart",
       paths.journal, paths.result, fmt::join(changes, "; "));
}

/// Removes the part file of a journal that is to be forgotten. If its layout is damaged, the part file is the one that
/// exists, as it is while a launch lays it out.
void forget_part(const store::Journal& journal, const std::string& part) {
  if (!store::is_taken(part)) return;
  bool is_its = journal.is_making();
  try {
    is_its = store::state_of(part).inode == store::PartLayout::parse(journal.part(), journal.path()).inode;
  } catch (const core::Error&) {
  }
  if (is_its) unlink(part.c_str());
}

}  // namespace

std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm) {
  if (!request.run.settings.output.writes_file()) return std::nullopt;
  const std::string identity = comm::from_root(comm, [&]() -> std::string {
    const Paths paths(request);
    const comm::BlockingScope inside("the look at " + paths.journal);
    std::optional<store::Journal> journal = store::Journal::find(paths.journal);
    if (!journal || journal->head() == store::whole_head) return "";
    if (restart) {
      const store::Journal::Turn turn(*journal);  // meanwhile no other launch can begin or continue
      if (const auto worker = journal->worker()) {
        fail(ErrorKind::failure, "{}: --restart would take the run away from {}, which works on it", paths.journal,
             *worker);
      }
      forget_part(*journal, paths.part);
      journal->remove();
      return "";
    }
    if (journal->done() == 0 && !journal->worker()) return "";  // a new beginning would lose nothing
    const std::vector<std::string> found = changes(*journal, request, /*is_decided=*/false);
    if (!found.empty()) refuse(paths, found);
    const std::string& named = request.run.settings.distribution.strategy;
    const Cuts cuts = cuts_of(journal->head(), paths.journal);
    if (named != "auto" && named != cuts.strategy) {
      refuse(paths, {fmt::format("distribution.strategy: {} -> {}", cuts.strategy, named)});
    }
    return journal->head();
  });
  if (identity.empty()) return std::nullopt;
  return cuts_of(identity, request.run.settings.output.file + ".journal");
}

struct LongRun::State {
  State(const Job& of, const Cuts& by, const std::vector<store::TensorSpec>& scratch, const comm::Communicator& ranks)
      : job(of),
        cuts(by),
        comm(ranks),
        paths(of),
        keeps(units() > 1),
        tensors(part_tensors(of, scratch)),
        output(plan(), ranks, goes_on()) {}

  const Job& job;
  const Cuts cuts;
  const comm::Communicator& comm;
  const Paths paths;
  const bool keeps;  // whether finished units are kept when the run ends early
  const std::vector<store::PartTensor> tensors;
  store::OutputFile output;
  store::FileRows rows;
  Index found_finished = 0;
  Index claimed = 0;                    // used if `keeps` is false: the journal then has no units
  std::vector<std::string> sink_notes;  // also used if `keeps` is false
  std::size_t phase = 0;
  bool stopped = false;

  Index units() const { return std::accumulate(cuts.phases.begin(), cuts.phases.end(), Index(0)); }
  Index finished() const { return keeps ? output.journal().done() : claimed; }
  store::Journal& journal() { return output.journal(); }
  const store::Journal& journal() const { return output.journal(); }

  store::OutputPlan plan() const {
    store::OutputPlan plan{store::target_of(job.run.settings.output), tensors};
    plan.keeps_units = keeps;
    if (keeps && comm.is_root()) plan.head = identity_text(job, cuts);
    return plan;
  }
  store::OutputFile::GoesOn goes_on() const {
    if (!keeps) return {};
    return [this](const store::Journal& found, const store::PartLayout& layout) { return accept(found, layout); };
  }
  bool accept(const store::Journal& found, const store::PartLayout& layout) const;

  /// Another launch has completed the result: the journal is removed, and the part file has the result's name.
  bool is_over() const {
    return keeps && !journal().is_there() &&
           output.has_final_name(store::PartLayout::parse(journal().part(), paths.journal));
  }
  /// The journal, locked; empty if the run is over.
  std::optional<store::Journal::Turn> turn() {
    try {
      return std::optional<store::Journal::Turn>(std::in_place, journal());
    } catch (const core::Error&) {
      if (is_over()) return std::nullopt;
      throw;
    }
  }

  void put_origins();
  std::optional<Unit> look_for_unit(bool& wait);
  void check_input() const {
    if (job.input) store::check_unchanged(job.input->inspected());
  }
};

/// On rank 0: whether the files of another launch belong to this run. It may have begun after recorded_cuts() looked.
bool LongRun::State::accept(const store::Journal& found, const store::PartLayout& layout) const {
  const std::vector<std::string> other = changes(found, job, /*is_decided=*/true);
  if (!other.empty()) refuse(paths, other);
  if (!(cuts_of(found.head(), paths.journal) == cuts)) return false;
  const bool has_name = !store::is_taken(paths.part) && store::is_taken(paths.result) &&
                        store::state_of(paths.result).inode == layout.inode;
  // Only if annulus gave it that name: a user who renames an unfinished file does not finish it.
  if (has_name && found.is_recording() && found.done() == units()) return true;
  if (has_name) {
    fail(ErrorKind::failure, "{}: is the unfinished file {} under another name: give it back its own, and run again",
         paths.result, paths.part);
  }
  if (!store::is_taken(paths.part)) {
    fail(ErrorKind::failure,
         "{}: is gone, with all that {} says is finished: put it back, or begin anew with annulus run --restart",
         paths.part, paths.journal);
  }
  if (!found.has_locks() && comm.size() > 1 && cuts.strategy == "stream") refuse_without_locks(paths);
  store::check_can_be_made(paths.result, job.run.settings.output.overwrite);
  return true;
}

/// Sets where the rows of every tensor are: in the input, or in what earlier phases wrote.
void LongRun::State::put_origins() {
  for (const StoredTensor tensor : input_tensors(job)) {
    store::RowOrigin origin = input_origin(job, tensor);
    if (!job.is_streamed()) store::allow(origin, store::Wanted::any_numbers);  // check_input() checks them
    rows.put(tensor, std::move(origin));
  }
  store::PartFile* part = output.part();
  if (part == nullptr || cuts.phases.size() == 1) return;
  for (const store::PartTensor& tensor : tensors) {
    const std::optional<StoredTensor> stored = core::stored_tensor(tensor.spec.name);
    if (stored) rows.put(*stored, part->place(tensor.spec.name));
  }
}

LongRun::LongRun(const Job& job, const Cuts& cuts, const std::vector<store::TensorSpec>& scratch,
                 const comm::Communicator& comm) {
  // Do this before the journal names this rank: from then on others rely on it to keep what is finished.
  const bool keeps = std::accumulate(cuts.phases.begin(), cuts.phases.end(), Index(0)) > 1;
  if (keeps) end_on_signals(comm, "what is finished stays so: run again to continue");
  state_ = std::make_unique<State>(job, cuts, scratch, comm);
  State& s = *state_;
  if (!s.output.is_open()) {
    throw AnotherLaunchBegan(ErrorKind::failure,
                             s.paths.journal + ": another launch has cut this run in other units meanwhile; run again");
  }
  comm::agree(comm, [&] {
    if (s.keeps && !s.journal().has_locks() && comm.size() > 1 && cuts.strategy == "stream") {
      refuse_without_locks(s.paths);
    }
    if (!job.layer) s.put_origins();
  });
  if (!s.keeps) return;
  s.found_finished = s.finished();
  if (comm.is_root() && s.found_finished > 0) {
    fmt::print(stderr, "annulus: going on: {} of {} parts are there\n", s.found_finished, s.units());
  }
  watch_for_stop(comm, job.run.settings.distribution.stall_timeout, /*seconds=*/18,
                 "annulus: stopped on request in the middle of a unit; those that are finished stay so: run again to "
                 "continue\n");
}

LongRun::~LongRun() = default;

bool LongRun::is_stopped() const { return state_->stopped; }

WhyUnfinished LongRun::why_unfinished() const {
  const State& s = *state_;
  if (s.is_over()) return {s.paths.result + " is complete: another launch has done the rest"};
  const std::string there =
      fmt::format("{} of {} parts of {} are finished and stay so", s.finished(), s.units(), s.paths.result);
  if (s.stopped) return {"stopped on request: " + there + "; run again to continue", stopped_status};
  if (const auto worker = s.journal().worker(s.output.launch()))
    return {fmt::format("{}; {} works on the rest", there, *worker)};
  return {there + "; run again for the rest, which a process that is gone had begun", stopped_status};
}

core::RowSource& LongRun::source() { return state_->rows; }
core::RowSink* LongRun::sink() { return state_->output.part(); }
store::OutputFile* LongRun::output() { return state_->output.part() == nullptr ? nullptr : &state_->output; }
Index LongRun::found_finished() const { return state_->found_finished; }

double LongRun::finished_share() const {
  return double(state_->finished()) / double(std::max<Index>(1, state_->units()));
}

/// The first unit that no process has claimed. If there is none, `wait` says whether a later phase may have one.
std::optional<Unit> LongRun::State::look_for_unit(bool& wait) {
  wait = false;
  if (journal().is_stopped(output.launch())) {
    stopped = true;
    return std::nullopt;
  }
  for (std::size_t number = 0; number < cuts.phases.size(); ++number) {
    if (journal().done_in(Index(number)) == cuts.phases[number]) continue;
    for (Index unit = 0; unit < cuts.phases[number]; ++unit) {
      const store::UnitName name{Index(number), unit};
      if (!journal().is_done(name) && !journal().is_claimed(name)) return Unit{number, unit};
    }
    wait = number + 1 < cuts.phases.size();  // wait for the processes that work on the last units of this phase
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Unit> LongRun::claim() {
  State& s = *state_;
  if (s.output.part() == nullptr) return std::nullopt;
  if (!s.keeps) return s.claimed++ == 0 && s.comm.is_root() ? std::optional<Unit>(Unit{}) : std::nullopt;
  for (;;) {
    bool wait = false;
    std::optional<Unit> unit;
    {
      std::optional<store::Journal::Turn> turn = s.turn();
      if (!turn) return std::nullopt;
      if (stop_requested() && !s.journal().is_stopped(s.output.launch())) {
        turn->write(fmt::format("stop {}", s.output.launch()));
      }
      unit = s.look_for_unit(wait);
      if (unit) turn->write(fmt::format("claim {} {} {}", unit->phase, unit->index, s.journal().self()));
    }
    if (unit && unit->phase != s.phase) {  // this phase reads what other ranks, perhaps on other machines, wrote
      s.phase = unit->phase;
      s.output.part()->reopen();
      s.put_origins();
    }
    if (unit || !wait) return unit;
    poll(nullptr, 0, /*ms=*/100);
    comm::watchdog_progress();
  }
}

void LongRun::finish(const Unit& unit, const std::string& sink_note) {
  State& s = *state_;
  s.output.part()->flush();
  s.check_input();
  s.sink_notes.push_back(sink_note);
  if (!s.keeps) return s.output.part()->write_borders();
  store::Journal::Turn turn(s.journal());
  s.output.part()->write_borders();
  turn.write(fmt::format("done {} {} {}", unit.phase, unit.index, sink_note));
  turn.flush();
}

std::optional<Unit> LongRun::claim_together() {
  State& s = *state_;
  if (s.output.part() == nullptr) return std::nullopt;
  if (!s.keeps) return s.claimed++ == 0 ? std::optional<Unit>(Unit{}) : std::nullopt;
  const bool stop = s.comm.max(Index(stop_requested())) > 0;
  if (stop) s.stopped = true;
  const std::vector<Index> found = comm::numbers_from_root(s.comm, [&]() -> std::vector<Index> {
    if (stop) return {};
    std::optional<store::Journal::Turn> turn = s.turn();
    if (!turn) return {};
    bool wait = false;
    const std::optional<Unit> unit = s.look_for_unit(wait);
    if (!unit) return {};
    turn->write(fmt::format("claim {} {} {}", unit->phase, unit->index, s.journal().self()));
    return {Index(unit->phase), unit->index};
  });
  if (found.empty()) return std::nullopt;
  return Unit{std::size_t(found.at(0)), found.at(1)};
}

void LongRun::finish_together(const Unit& unit, const std::string& sink_note) {
  State& s = *state_;
  s.sink_notes.push_back(sink_note);
  comm::agree(s.comm, [&] {
    if (s.keeps && s.output.part()->has_borders()) {  // this rank wrote these rows on its own
      const store::Journal::Turn turn(s.journal());
      s.output.part()->write_borders();
    }
    if (s.keeps) s.output.part()->flush();  // otherwise publish() flushes
    s.check_input();
  });
  if (!s.keeps) return;
  comm::on_root(s.comm, [&] {
    store::Journal::Turn turn(s.journal());
    turn.write(fmt::format("done {} {} {}", unit.phase, unit.index, sink_note));
    turn.flush();
  });
}

bool LongRun::complete(const std::function<store::Record()>& record) {
  State& s = *state_;
  enum Found { unfinished, ours, done };
  const Index found = comm::numbers_from_root(s.comm, [&]() -> std::vector<Index> {
                        if (s.output.part() == nullptr) return {done};
                        if (!s.keeps) return {ours};
                        std::optional<store::Journal::Turn> turn = s.turn();
                        if (!turn || s.finished() < s.units() || !s.journal().take_completion()) return {unfinished};
                        turn->write("record");
                        turn->flush();
                        return {ours};
                      }).at(0);
  s.stopped = s.comm.max(Index(s.stopped)) > 0;
  if (found == unfinished) return false;
  if (found == done) {
    comm::on_root(s.comm, [&] { s.journal().remove(); });
    return true;
  }
  s.rows.forget();
  if (s.job.problem.sink && s.job.problem.gradients) {
    write_dsink(
        s.job, [&] { return s.keeps ? s.journal().notes() : s.sink_notes; }, s.output, s.comm);
  }
  s.output.publish(record());
  return true;
}

}  // namespace annulus::app
