#include "annulus/app/job/long_run.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "annulus/app/job/run_identity.hpp"
#include "annulus/app/report/record.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/journal.hpp"
#include "annulus/io/location.hpp"
#include "annulus/io/part_file.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/temporary_name.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;
using core::StoredTensor;

/// Where a run keeps its numbers and its journal.
struct Paths {
  std::string result, part, journal;

  explicit Paths(const Request& request)
      : result(io::follow_links(request.run.settings.output.file)),
        part(result + ".part"),
        journal(result + ".journal") {}
};

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::uint64_t random_id() { return std::stoull(io::random_digits(), nullptr, 16) >> 2; }

/// The datasets of the result, and scratch.
std::vector<io::PartTensor> part_tensors(const Job& job, const std::vector<io::TensorSpec>& scratch) {
  const strategies::Problem& problem = job.problem;
  std::vector<io::PartTensor> all;
  const auto add = [&](const io::TensorSpec& spec, bool is_scratch) {
    constexpr std::array known{StoredTensor::out,        StoredTensor::lse,      StoredTensor::normalizers,
                               StoredTensor::entropy,    StoredTensor::dq,       StoredTensor::dk,
                               StoredTensor::dv,         StoredTensor::received, StoredTensor::top_rows,
                               StoredTensor::top_weights};
    const auto* found = std::find_if(known.begin(), known.end(), [&](auto id) { return name_of(id) == spec.name; });
    core::require(found != known.end(), [&] { return spec.name + " cannot be made unit by unit"; });
    const bool as_stored = is_scratch || *found == StoredTensor::received || *found == StoredTensor::top_rows;
    const bool of_lse = *found == StoredTensor::lse || *found == StoredTensor::entropy;
    const core::DType memory = as_stored ? spec.type.dtype().value_or(io::bits_of_int64)
                               : of_lse || *found == StoredTensor::top_weights ? core::lse_type(problem.type)
                                                                               : problem.type;
    all.push_back({*found, spec, memory, is_scratch});
  };
  for (const io::TensorSpec& spec : job.results) add(spec, false);
  for (const io::TensorSpec& spec : scratch) add(spec, true);
  return all;
}

[[noreturn]] void refuse(const Paths& paths, const std::vector<std::string>& changes) {
  fail(ErrorKind::failure,
       "{}: an interrupted run has begun {}, and with other settings, input or program than these: {}; go back to what "
       "it was, name another output, or forget what it has finished with: annulus run --restart",
       paths.journal, paths.result, fmt::join(changes, "; "));
}

}  // namespace

std::optional<Cuts> recorded_cuts(const Request& request, bool restart, const comm::Communicator& comm) {
  if (!request.run.settings.output.writes_file()) return std::nullopt;
  const std::string identity = io::from_root(comm, [&]() -> std::string {
    const Paths paths(request);
    const comm::BlockingScope inside("the look at " + paths.journal);
    std::optional<io::Journal> journal = io::Journal::find(paths.journal);
    if (!journal) return "";
    if (restart) {
      const io::Journal::Turn turn(*journal);  // nobody begins anew, or goes on, between our look and the end of it
      if (const auto worker = journal->worker()) {
        fail(ErrorKind::failure, "{}: --restart would take the run away from {}, which works on it", paths.journal,
             *worker);
      }
      const io::PartLayout layout = io::PartLayout::parse(journal->part());
      if (exists(paths.part) && io::state_of(paths.part).inode == layout.inode) unlink(paths.part.c_str());
      journal->remove();
      return "";
    }
    const std::vector<std::string> found = changes(journal->head(), request, /*is_decided=*/false);
    if (!found.empty()) refuse(paths, found);
    const std::string& named = request.run.settings.distribution.strategy;
    const Cuts cuts = cuts_of(journal->head());
    if (named != "auto" && named != cuts.strategy) {
      refuse(paths, {fmt::format("distribution.strategy: {} -> {}", cuts.strategy, named)});
    }
    return journal->head();
  });
  if (identity.empty()) return std::nullopt;
  return cuts_of(identity);
}

struct LongRun::State {
  State(const Job& of, const Cuts& by, const comm::Communicator& ranks) : job(of), cuts(by), comm(ranks), paths(of) {}

  const Job& job;
  const Cuts cuts;
  const comm::Communicator& comm;
  const Paths paths;
  std::uint64_t launch = 0;
  std::optional<io::Journal> journal;
  std::optional<io::PartFile> part;  // none where the result has its name already
  io::FileRows rows;
  Index found_finished = 0;
  bool stopped = false;

  Index units() const { return std::accumulate(cuts.phases.begin(), cuts.phases.end(), Index(0)); }
  Index finished() const {
    Index count = 0;
    for (std::size_t phase = 0; phase < cuts.phases.size(); ++phase) count += journal->done_in(Index(phase));
    return count;
  }
  bool has_result_name(const io::PartLayout& layout) const {
    return !exists(paths.part) && exists(paths.result) && io::state_of(paths.result).inode == layout.inode;
  }
  /// By us: whoever gives an unfinished file the result's name does not make it a result.
  bool is_published(const io::PartLayout& layout) const {
    return journal->is_recording() && finished() == units() && has_result_name(layout);
  }

  /// Another launch has completed the result: the journal is gone, and the part file has its name.
  bool is_over() const { return !journal->is_there() && has_result_name(io::PartLayout::parse(journal->part())); }
  /// Nothing where it is over.
  std::optional<io::Journal::Turn> turn() {
    try {
      return std::optional<io::Journal::Turn>(std::in_place, *journal);
    } catch (const core::Error&) {
      if (is_over()) return std::nullopt;
      throw;
    }
  }

  io::Journal::Turn open_journal();
  bool lay_out(const std::vector<io::PartTensor>& tensors);
  bool go_on(const io::PartLayout& layout) const;
  std::optional<Unit> look_for_unit(bool& wait);
  void note_done(const Unit& unit);
};

/// Locked, and under its name: another launch may remove it between the opening and the locking.
io::Journal::Turn LongRun::State::open_journal() {
  for (;;) {
    journal.emplace(paths.journal);
    try {
      return io::Journal::Turn(*journal);
    } catch (const core::Error&) {
      if (journal->is_there()) throw;
    }
  }
}

/// Whether what another launch has laid out is this run. It may have come behind our look at recorded_cuts().
bool LongRun::State::go_on(const io::PartLayout& layout) const {
  const std::vector<std::string> found = changes(journal->head(), job, /*is_decided=*/true);
  if (!found.empty()) refuse(paths, found);
  if (!(cuts_of(journal->head()) == cuts)) return false;
  if (is_published(layout)) return true;
  if (has_result_name(layout)) {
    fail(ErrorKind::failure, "{}: is the unfinished file {} under another name: give it back its own, and run again",
         paths.result, paths.part);
  }
  if (!exists(paths.part)) {
    fail(ErrorKind::failure,
         "{}: is gone, with all that {} says is finished: put it back, or begin anew with annulus run --restart",
         paths.part, paths.journal);
  }
  io::check_location(paths.result, job.run.settings.output.overwrite);
  return true;
}

/// On rank 0: makes journal and part file, unless another launch has; false where that has cut the run in other units.
bool LongRun::State::lay_out(const std::vector<io::PartTensor>& tensors) {
  const auto check_result = [&] { io::check_location(paths.result, job.run.settings.output.overwrite); };
  if (!exists(paths.journal)) check_result();  // before anything is made
  io::Journal::Turn turn = open_journal();
  if (!journal->has_locks() && comm.size() > 1 && cuts.strategy == "stream") {
    fail(
        ErrorKind::failure,
        "{}: this file system has no locks, which ranks of strategy stream need to share blocks: run it with one rank, "
        "or put output.file on another file system",
        paths.journal);
  }
  if (!journal->is_empty()) return go_on(io::PartLayout::parse(journal->part()));
  bool laid_out = false;
  try {
    check_result();
    if (exists(paths.part)) {
      if (!journal->is_making()) {
        fail(ErrorKind::failure,
             "{}: is in the way: the run keeps its numbers under that name until it is finished; remove it if it is of "
             "a run whose journal is gone",
             paths.part);
      }
      unlink(paths.part.c_str());  // of a launch that was killed while it laid it out
    }
    turn.begin_anew();
    turn.write("head " + identity_text(job, cuts));
    turn.write("making");
    turn.flush();
    io::OutputLocation where = io::location_of(job.run.settings.output);
    where.file = paths.result;
    const io::PartLayout layout = io::PartFile::lay_out(paths.part, where, tensors);
    laid_out = true;
    turn.write("part " + layout.text());
    turn.flush();
  } catch (const core::Error&) {  // nothing has begun, and nothing stays
    if (laid_out) unlink(paths.part.c_str());
    journal->remove();
    throw;
  }
  io::flush_folder(paths.journal);
  return true;
}

LongRun::LongRun(const Job& job, const Cuts& cuts, std::vector<io::TensorSpec> scratch, const comm::Communicator& comm)
    : state_(std::make_unique<State>(job, cuts, comm)) {
  State& s = *state_;
  const std::vector<io::PartTensor> tensors = part_tensors(job, scratch);
  const std::vector<Index> launch = io::numbers_from_root(comm, [&] {
    const comm::BlockingScope inside("the making of " + s.paths.part);
    return s.lay_out(tensors) ? std::vector<Index>{Index(random_id())} : std::vector<Index>{};
  });
  if (launch.empty()) {
    throw BegunMeanwhile(ErrorKind::failure,
                         s.paths.journal + ": another launch has cut this run in other units meanwhile; run again");
  }
  s.launch = std::uint64_t(launch.at(0));
  end_on_signals(comm, "what is finished stays so: run again to continue");
  comm::agree(comm, [&] {
    if (!s.journal) {
      std::optional<io::Journal> found = io::Journal::find(s.paths.journal);
      if (!found) fail(ErrorKind::failure, "{}: the journal of this run was removed meanwhile", s.paths.journal);
      s.journal.emplace(std::move(*found));
    }
    const io::PartLayout layout = io::PartLayout::parse(s.journal->part());
    if (!s.is_published(layout)) {
      s.part.emplace(s.paths.part, layout, tensors, /*has_scratch=*/!s.journal->is_recording());
      for (const io::PartTensor& tensor : tensors) s.rows.put(tensor.id, s.part->place(tensor.id));
    }
    for (const StoredTensor tensor : input_tensors(job)) s.rows.put(tensor, input_place(job, tensor));
    s.found_finished = s.finished();
    s.journal->sign_on({random_id(), s.launch,
                        fmt::format("{}, process {} on {}, rank {} of {}", utc_now(), getpid(), comm::host_name(),
                                    comm.rank(), comm.size())});
  });
  if (comm.is_root() && s.found_finished > 0) {
    fmt::print(stderr, "annulus: going on: {} of {} parts are there\n", s.found_finished, s.units());
  }
  watch_for_stop(comm, job.run.settings.distribution.stall_timeout, /*seconds=*/18,
                 "annulus: stopped on request in the middle of a unit; those that are finished stay so: run again to "
                 "continue\n");
}

LongRun::~LongRun() = default;

bool LongRun::is_stopped() const { return state_->stopped; }

Rest LongRun::rest() const {
  const State& s = *state_;
  if (s.is_over()) return {s.paths.result + " is complete: another launch has done the rest"};
  const std::string there =
      fmt::format("{} of {} parts of {} are finished and stay so", s.finished(), s.units(), s.paths.result);
  if (s.stopped) return {"stopped on request: " + there + "; run again to continue", stopped_status};
  if (const auto worker = s.journal->worker(s.launch)) return {fmt::format("{}; {} works on the rest", there, *worker)};
  return {there + "; run again for the rest, which a process that is gone had begun", stopped_status};
}

core::RowSource& LongRun::source() { return state_->rows; }
core::RowSink* LongRun::sink() { return state_->part ? &*state_->part : nullptr; }
Index LongRun::found_finished() const { return state_->found_finished; }

double LongRun::finished_share() const {
  return double(state_->finished()) / double(std::max<Index>(1, state_->units()));
}

/// The first unit that nobody has; where there is none, whether one may come.
std::optional<Unit> LongRun::State::look_for_unit(bool& wait) {
  wait = false;
  if (journal->is_stopped(launch)) {
    stopped = true;
    return std::nullopt;
  }
  for (std::size_t phase = 0; phase < cuts.phases.size(); ++phase) {
    if (journal->done_in(Index(phase)) == cuts.phases[phase]) continue;
    for (Index unit = 0; unit < cuts.phases[phase]; ++unit) {
      const io::UnitName name{Index(phase), unit};
      if (!journal->is_done(name) && !journal->is_claimed(name)) return Unit{phase, unit};
    }
    wait = phase + 1 < cuts.phases.size();  // for those that work on the last ones of this phase
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Unit> LongRun::claim() {
  State& s = *state_;
  if (!s.part) return std::nullopt;
  for (;;) {
    bool wait = false;
    {
      std::optional<io::Journal::Turn> turn = s.turn();
      if (!turn) return std::nullopt;
      if (stop_requested() && !s.journal->is_stopped(s.launch)) turn->write(fmt::format("stop {}", s.launch));
      const std::optional<Unit> unit = s.look_for_unit(wait);
      if (unit) turn->write(fmt::format("claim {} {} {}", unit->phase, unit->index, s.journal->self()));
      if (unit || !wait) return unit;
    }
    poll(nullptr, 0, /*ms=*/100);
    comm::watchdog_progress();
  }
}

void LongRun::State::note_done(const Unit& unit) {
  io::Journal::Turn turn(*journal);
  turn.write(fmt::format("done {} {}", unit.phase, unit.index));
  turn.flush();
}

void LongRun::finish(const Unit& unit) {
  State& s = *state_;
  s.part->flush();
  if (s.job.input) io::check_unchanged(s.job.input->seen().path, s.job.input->seen().state);
  s.note_done(unit);
}

std::optional<Unit> LongRun::claim_together() {
  State& s = *state_;
  if (!s.part) return std::nullopt;
  const bool stop = s.comm.max(Index(stop_requested())) > 0;
  if (stop) s.stopped = true;
  const std::vector<Index> found = io::numbers_from_root(s.comm, [&]() -> std::vector<Index> {
    if (stop) return {};
    std::optional<io::Journal::Turn> turn = s.turn();
    if (!turn) return {};
    bool wait = false;
    const std::optional<Unit> unit = s.look_for_unit(wait);
    if (!unit) return {};
    turn->write(fmt::format("claim {} {} {}", unit->phase, unit->index, s.journal->self()));
    return {Index(unit->phase), unit->index};
  });
  if (found.empty()) return std::nullopt;
  return Unit{std::size_t(found.at(0)), found.at(1)};
}

void LongRun::finish_together(const Unit& unit) {
  State& s = *state_;
  comm::agree(s.comm, [&] {
    s.part->flush();
    if (s.job.input) io::check_unchanged(s.job.input->seen().path, s.job.input->seen().state);
  });
  io::on_root(s.comm, [&] { s.note_done(unit); });
}

bool LongRun::complete(const std::function<io::Record()>& record) {
  State& s = *state_;
  enum Found { unfinished, ours, done };
  const Index found = io::numbers_from_root(s.comm, [&]() -> std::vector<Index> {
                        if (!s.part) return {done};
                        std::optional<io::Journal::Turn> turn = s.turn();
                        if (!turn || s.finished() < s.units() || !s.journal->take_completion()) return {unfinished};
                        turn->write("record");
                        turn->flush();
                        return {ours};
                      }).at(0);
  s.stopped = s.comm.max(Index(s.stopped)) > 0;
  if (found == unfinished) return false;
  if (found == ours) {
    const io::Record all = record();
    io::on_root(s.comm, [&] { s.part->publish(s.paths.result, s.job.run.settings.output.overwrite, all); });
  }
  io::on_root(s.comm, [&] { s.journal->remove(); });
  return true;
}

}  // namespace annulus::app
