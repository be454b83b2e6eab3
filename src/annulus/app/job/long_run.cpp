#include "annulus/app/job/long_run.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
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
      if (const auto worker = journal->worker()) {
        fail(ErrorKind::failure, "{}: --restart would take the run away from {}, which works on it", paths.journal,
             *worker);
      }
      const io::PartLayout layout = io::PartLayout::parse(journal->part());
      if (exists(paths.part) && io::state_of(paths.part).inode == layout.inode) unlink(paths.part.c_str());
      journal->remove();
      return "";
    }
    const std::vector<std::string> found = changes(journal->head(), request);
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
  bool is_published(const io::PartLayout& layout) const {
    return !exists(paths.part) && exists(paths.result) && io::state_of(paths.result).inode == layout.inode;
  }

  void lay_out(const std::vector<io::PartTensor>& tensors);
  std::optional<Unit> look_for_unit(bool& wait);
  void note_done(const Unit& unit);
};

/// On rank 0: makes journal and part file, unless another launch has.
void LongRun::State::lay_out(const std::vector<io::PartTensor>& tensors) {
  const auto check_result = [&] { io::check_location(paths.result, job.run.settings.output.overwrite); };
  if (!exists(paths.journal)) check_result();  // before anything is made
  journal.emplace(paths.journal);
  if (!journal->has_locks() && comm.size() > 1 && cuts.strategy == "stream") {
    fail(
        ErrorKind::failure,
        "{}: this file system has no locks, which ranks of strategy stream need to share blocks: run it with one rank, "
        "or put output.file on another file system",
        paths.journal);
  }
  io::Journal::Turn turn(*journal);
  if (!journal->is_empty()) {
    if (!is_published(io::PartLayout::parse(journal->part()))) check_result();
    return;
  }
  check_result();
  if (exists(paths.part)) {
    if (!journal->is_making()) {
      fail(ErrorKind::failure, "{}: is in the way: the run keeps its numbers under that name until it is finished",
           paths.part);
    }
    unlink(paths.part.c_str());  // of a launch that was killed while it laid it out
  }
  try {
    turn.begin_anew();
    turn.write("head " + identity_text(job, cuts));
    turn.write("making");
    turn.flush();
    io::OutputLocation where = io::location_of(job.run.settings.output);
    where.file = paths.result;
    const io::PartLayout layout = io::PartFile::lay_out(paths.part, where, tensors);
    turn.write("part " + layout.text());
    turn.flush();
  } catch (const core::Error&) {  // nothing has begun, and nothing stays
    journal->remove();
    throw;
  }
  turn.begin_anew();
  turn.write("head " + identity_text(job, cuts));
  turn.write("making");
  turn.flush();
  io::OutputLocation where = io::location_of(job.run.settings.output);
  where.file = paths.result;
  const io::PartLayout layout = io::PartFile::lay_out(paths.part, where, tensors);
  turn.write("part " + layout.text());
  turn.flush();
