#include "annulus/app/bench/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "annulus/app/job/machine.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/error.hpp"
#include "annulus/kernels/multiply_add_peak.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {
namespace {

constexpr double guessed_seconds = 1;  // assumed for a run without a prediction

double seconds_of(const PlannedCase& one) { return std::isnan(one.seconds) ? guessed_seconds : one.seconds; }

/// Number of runs of each case, warm-up included.
Index runs_of(const runfile::BenchFile& file) { return file.settings.warmup + file.settings.repeats; }

/// Measures the groups of one launch, one after the other, with one progress line for all.
class Rounds {
 public:
  Rounds(const JobMaker& jobs, const std::vector<PlannedCase>& cases, const store::CaseRecord& launch,
         const CaseListener& listener, const comm::Communicator& comm)
      : jobs_(jobs),
        launch_(launch),
        listener_(listener),
        comm_(comm),
        runs_(runs_of(jobs.file())),
        all_(std::accumulate(cases.begin(), cases.end(), 0.0,
                             [](double sum, const PlannedCase& one) { return sum + seconds_of(one); })),
        cases_(Index(cases.size())),
        line_(comm.is_root(), {double(cases.size()), "case"}) {}

  /// Runs every case of a group `runs_` times. Returns false if a stop was requested and cases are left.
  bool measure_group(const std::vector<PlannedCase>& group) {
    if (asked_to_stop()) return false;  // before the group begins, because a begun case is measured last next time
    std::vector<Index> numbers;
    for (const PlannedCase& one : group) numbers.push_back(one.one->number);
    listener_.begun(numbers);
    trials_.clear();
    for (const PlannedCase& one : group) {
      std::unique_ptr<Trial> trial;
      succeeds(*one.one, [&] { trial = std::make_unique<Trial>(jobs_, one, trials_, comm_); });
      trials_.push_back(std::move(trial));
    }
    peaks_.clear();
    for (Index run = 0; run < runs_; ++run) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        // Each round begins with another case, so that a case does not always follow the same case.
        const std::size_t now = (i + std::size_t(run)) % group.size();
        run_once(group[now], trials_[now], run);
        done_ += seconds_of(group[now]) / double(runs_);
        if (asked_to_stop()) return false;
      }
    }
    return true;
  }

  const Measured& measured() const { return measured_; }

 private:
  void run_once(const PlannedCase& planned, std::unique_ptr<Trial>& trial, Index run) {
    if (!trial) return;
    const bool last = run + 1 == runs_;
    const std::string what =
        fmt::format("{} of {} cases done; case {}, run {} of {}", measured_.cases + measured_.failed, cases_,
                    planned.one->number, run + 1, runs_);
    const double weight = seconds_of(planned) / double(runs_);
    const auto shown = [&](double share, const std::string&) { line_.show((done_ + share * weight) / all_, what); };
    store::CaseRecord record;
    const bool well = succeeds(*planned.one, [&] {
      trial->run(run >= jobs_.file().settings.warmup, last, shown);
      if (last) record = trial->finish(peak(trial->precision()), launch_);
    });
    shown(1, what);
    if (last || !well) trial.reset();
    if (!last || !well) return;
    ++measured_.cases;
    listener_.finished(record);
  }

  /// Does the `work` of a case. If the work fails with the same error on all ranks, records the failure and returns
  /// false, so that the other cases continue.
  template <class Work>
  bool succeeds(const runfile::BenchCase& one, const Work& work) {
    std::string error;
    try {
      work();
      return true;
    } catch (const comm::AgreedError& what) {
      error = what.what();
    } catch (const core::Error& what) {  // perhaps only this rank failed: the job must end, so that no rank waits
      if (comm_.size() > 1) throw;
      error = what.what();
    }
    line_.clear();
    if (comm_.is_root()) std::fprintf(stderr, "annulus: error: %s: %s\n", one.name().c_str(), error.c_str());
    ++measured_.failed;
    listener_.finished(record_of_failure(one, error, launch_));
    return false;
  }

  /// Returns the peak rate of multiply-adds, as a mean over the ranks. Each group measures this rate anew, because it
  /// changes from minute to minute. Collective.
  double peak(core::Precision precision) {
    const auto known = peaks_.find(precision);
    if (known != peaks_.end()) return known->second;
    comm_.barrier();
    const std::vector<double> all = comm_.gather_all(kernels::multiply_add_peak(precision));
    return peaks_[precision] = std::accumulate(all.begin(), all.end(), 0.0) / double(all.size());
  }

  bool asked_to_stop() {
    const comm::Scope scope("the agreement on a stop");
    const bool asked = comm_.max(Index(stop_requested())) != 0;
    measured_.stopped = asked && measured_.cases + measured_.failed < cases_;
    return measured_.stopped;
  }

  const JobMaker& jobs_;
  const store::CaseRecord& launch_;
  const CaseListener& listener_;
  const comm::Communicator& comm_;
  const Index runs_;
  const double all_;  // sum of the predicted seconds of one run of each case
  const Index cases_;
  report::ProgressLine line_;
  double done_ = 0;
  std::vector<std::unique_ptr<Trial>> trials_;  // one for each case of the group; nullptr: failed, or done
  std::map<core::Precision, double> peaks_;
  Measured measured_;
};

}  // namespace

ArrayTask array_task(const std::function<const char*(const char*)>& variable) {
  const auto number = [&](const char* name, Index smallest) -> std::optional<Index> {
    const char* text = variable(name);
    if (text == nullptr || *text == '\0') return std::nullopt;
    const auto [value, expected] = runfile::parse_whole(text, {smallest});
    if (!value) core::fail(core::ErrorKind::usage, "bench: variable {} is '{}'; expected {}", name, text, expected);
    return value;
  };
  const auto id = number("SLURM_ARRAY_TASK_ID", 0), count = number("SLURM_ARRAY_TASK_COUNT", 1);
  if (!id || !count) return {};
  const Index least = number("SLURM_ARRAY_TASK_MIN", 0).value_or(0);
  const Index step = number("SLURM_ARRAY_TASK_STEP", 1).value_or(1);
  const ArrayTask task{(*id - least) / step, *count};
  if (*id < least || (*id - least) % step != 0 || task.number >= task.count) {
    core::fail(core::ErrorKind::usage,
               "bench: task {} of a job array of {} tasks from {} on (SLURM_ARRAY_TASK_ID, _COUNT, _MIN) cannot be "
               "numbered; expected an array that is a range: sbatch --array=0-{}",
               *id, *count, least, *count - 1);
  }
  return task;
}

bool belongs(const runfile::BenchCase& one, const BenchLaunch& launch) {
  const auto suits = [&](const char* word, Index number) {
    const runfile::SweptValue* asked = one.find(word);
    return asked == nullptr || std::stoll(asked->text) == number;  // "+2" is 2, too
  };
  return one.number % launch.task.count == launch.task.number && suits(runfile::ranks_word, launch.ranks) &&
         suits(runfile::threads_word, launch.threads);
}

std::vector<std::vector<PlannedCase>> groups_of(const std::vector<PlannedCase>& cases, Index runs,
                                                const GroupLimits& limits) {
  std::vector<std::vector<PlannedCase>> groups;
  double seconds = 0, bytes = 0;
  for (const PlannedCase& one : cases) {
    const double more = seconds_of(one) * double(runs);
    const bool fits = !groups.empty() && !one.alone && !groups.back().back().alone &&
                      groups.back().size() < limits.cases && seconds + more <= limits.seconds &&
                      bytes + one.bytes <= limits.bytes;
    if (!fits) {
      groups.emplace_back();
      seconds = bytes = 0;
    }
    groups.back().push_back(one);
    seconds += more;
    bytes += one.bytes;
  }
  return groups;
}

Measured measure(const JobMaker& jobs, const std::vector<PlannedCase>& cases, const store::CaseRecord& launch,
                 const CaseListener& listener, const comm::Communicator& comm) {
  Rounds rounds(jobs, cases, launch, listener, comm);
  GroupLimits limits;
  if (const double share = memory_share(comm).bytes; share > 0) limits.bytes = share / 2;
  for (const std::vector<PlannedCase>& group : groups_of(cases, runs_of(jobs.file()), limits)) {
    if (!rounds.measure_group(group)) break;
  }
  return rounds.measured();
}

}  // namespace annulus::app
