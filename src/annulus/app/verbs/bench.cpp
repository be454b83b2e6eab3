// `annulus bench`: measures those cases of a run file's section bench that belong to this launch and are not measured
// yet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "annulus/app/bench/columns.hpp"
#include "annulus/app/bench/rounds.hpp"
#include "annulus/app/job/describe.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/report/text.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/fingerprint.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

// The files of a sweep say which cases are measured. A case that is measured is never lost, and no launch that starts
// later measures it again.

/// Describes the contents of files (PlannedCase::input_files) by their sizes and a fingerprint of samples of their
/// bytes; empty without files. The text does not depend on the folders of the files or on the order of their paths,
/// because users may copy the files to other folders.
std::string contents_of(const std::vector<std::string>& files) {
  if (files.empty()) return "";
  std::vector<std::string> others;
  for (std::size_t i = 1; i < files.size(); ++i) {
    others.push_back(std::filesystem::path(files[i]).filename().string() + ": " + store::sample_of(files[i]));
  }
  const std::string own = store::sample_of(files[0]);
  if (others.empty()) return own;
  std::sort(others.begin(), others.end());
  const std::string text = fmt::format("{}", fmt::join(others, "\n"));
  return fmt::format("{}, other files: {}, fingerprint {:016x}", own, others.size(),
                     store::fingerprint(std::vector<Index>(text.begin(), text.end())));
}

/// Returns contents_of() the input files of each case, in the order of `planned`.
std::vector<std::string> contents_of(const std::vector<PlannedCase>& planned) {
  std::map<std::vector<std::string>, std::string> contents;
  std::vector<std::string> all;
  for (const PlannedCase& one : planned) {
    std::vector<std::string> files;
    for (const auto& [file, state] : one.input_files) files.push_back(file);
    const auto [found, is_new] = contents.try_emplace(files);
    if (is_new) found->second = contents_of(files);
    all.push_back(found->second);
  }
  return all;
}

/// The files of a sweep: its table, and the file to which this launch adds finished cases. For rank 0 only.
class SweepStore {
 public:
  /// Reads what earlier launches left. `planned` has all cases of the file, in order. Throws as records() does, and
  /// Error(failure) if a file cannot be made, or if an existing file belongs to no sweep or to another sweep; then the
  /// message says how the sweeps differ.
  SweepStore(const runfile::BenchFile& file, const std::vector<PlannedCase>& planned)
      : file_(file),
        table_(runfile::follow_links(file.settings.file)),
        json_(file.settings.json.value_or("")),
        identity_(file.identity()),
        contents_(contents_of(planned)),
        launch_(table_, identity_) {
    records();
    report::check_tables_can_be_made(table_, json_, identity_);
  }

  /// Returns one record for each case; empty for a case without a record. Throws Error(failure) if a case was measured
  /// with other contents of its input files, because a table must not mix contents.
  CaseRecords records() const {
    std::vector<store::CaseRecord> found = store::read_parts(table_, identity_).records;
    const report::EarlierTable earlier = report::read_sweep_table(table_);
    if (!earlier.identity.empty()) store::check_same_sweep("bench.file", table_, earlier.identity, identity_);
    std::istringstream lines(earlier.records);
    for (std::string line; std::getline(lines, line);) {
      if (auto record = store::record_of(line)) found.push_back(std::move(*record));
    }
    CaseRecords all = best_records(found, file_.cases);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string was = all[i] && is_measured(*all[i]) ? all[i]->word_in(contents_word) : "";
      if (was.empty() || was == contents_[i]) continue;
      core::fail(core::ErrorKind::failure,
                 "{}: case {} was measured with other contents of input.file: {} -> {}; give bench.file another name; "
                 "to begin anew, remove the tables and the folder .part of bench.file",
                 table_, i, was, contents_[i]);
    }
    return all;
  }
  /// The cases that earlier launches have begun, whether they finished them or not.
  std::vector<Index> begun() const { return store::read_parts(table_, identity_).begun; }

  /// keep() saves a record; begin() notes which cases begin. Both flush to disk and throw Error(failure) if that fails.
  void keep(store::CaseRecord record) {
    record.words.emplace_back(contents_word, contents_[std::size_t(record.number)]);
    launch_.append(record);
  }
  void begin(const std::vector<Index>& numbers) { launch_.begin(numbers); }

  /// Makes the table from all records, including those of other launches, and returns the records. A table that is up
  /// to date is not written again.
  CaseRecords make_table(const std::vector<std::pair<std::string, std::string>>& provenance) const {
    for (;;) {
      const std::string seen = store::state_of_parts(table_);
      CaseRecords records = this->records();
      launch_.check_is_there();  // otherwise the table may lack cases that this launch has measured
      const report::SweepTable table = table_of(records, provenance);
      if (!table.records.empty() && !report::tables_have_cases(table_, json_, table)) {
        report::write_sweep_table(table_, json_, table);
      }
      // If another launch added a case meanwhile, this launch may have replaced that launch's newer table, and must try
      // again.
      if (store::state_of_parts(table_) == seen) return records;
    }
  }

 private:
  report::SweepTable table_of(const CaseRecords& records,
                              const std::vector<std::pair<std::string, std::string>>& provenance) const {
    report::SweepTable table;
    for (const runfile::BenchCase& one : file_.cases) table.numbers.push_back(one.number);
    table.columns = table_columns(file_.cases, records);
    table.identity = identity_;
    for (const auto& record : records) {
      if (record) table.records += store::line_of(*record) + "\n";
    }
    table.provenance = provenance;
    table.attributes = identity(fmt::format("annulus bench: a sweep of {} cases", table.numbers.size()));
    return table;
  }

  const runfile::BenchFile& file_;
  static constexpr const char* contents_word = "contents";  // records have this word, but the table has no such column
  const std::string table_, json_, identity_;
  const std::vector<std::string> contents_;
  store::LaunchFile launch_;
};

constexpr std::size_t most_printed = 1000;  // rows of the table that are printed on stdout
constexpr unsigned patience_seconds = 15;   // the process ends at most this long after a request to stop

/// Checks every case, as `run` would, before the first case runs. Predicts time and memory of the cases for which
/// `predicted` returns true. Collective.
std::vector<PlannedCase> check_cases(const JobMaker& jobs, const comm::Communicator& comm,
                                     const std::function<bool(const runfile::BenchCase&)>& predicted) {
  const std::vector<runfile::BenchCase>& cases = jobs.file().cases;
  const comm::Scope scope("the check of the cases");
  report::ProgressLine line(comm.is_root(), {double(cases.size()), "case"});
  std::vector<PlannedCase> planned;
  for (const runfile::BenchCase& one : cases) {
    planned.push_back(jobs.plan(one, predicted(one)));
    line.show(double(planned.size()) / double(cases.size()), "checking cases");
  }
  return planned;
}

struct Given {
  RunFileArguments words;
  bool dry_run = false;
};

/// Throws Error(failure) if the name of a file is too long. A dry run checks this, too.
void check_names(const runfile::BenchSettings& settings) {
  for (const std::string& file : {settings.file, settings.json.value_or("")}) {
    const std::string why = file.empty() ? "" : store::why_too_long(file);
    if (!why.empty()) core::fail(core::ErrorKind::failure, "{}: {}", file, why);
  }
}

/// If no case has the launch's numbers of ranks and threads, says so; otherwise empty. Ignores the task of a job array.
std::string why_no_case(const std::vector<runfile::BenchCase>& cases, const BenchLaunch& launch) {
  const auto is_ours = [&](const runfile::BenchCase& one) { return belongs(one, {launch.ranks, launch.threads, {}}); };
  if (std::any_of(cases.begin(), cases.end(), is_ours)) return "";
  const std::string threads =
      launch.threads == 0 ? "different numbers of threads" : core::how_many(launch.threads, "thread");
  return fmt::format("; bench.sweep has no case for {} with {}", core::how_many(launch.ranks, "rank"), threads);
}

/// Prints every case with its prediction. Marks with * the cases that belong to this launch, whether or not they have
/// been measured already. Call it on rank 0.
void print_plan(const runfile::BenchFile& file, const std::vector<PlannedCase>& planned, const BenchLaunch& launch) {
  const Index runs = file.settings.warmup + file.settings.repeats;
  double seconds = 0;
  Index mine = 0, unknown = 0;
  core::print("annulus bench --dry-run {}\n", file.shared.name);
  for (const PlannedCase& one : planned) {
    const bool is_ours = belongs(*one.one, launch);
    const bool is_known = !std::isnan(one.seconds);
    mine += is_ours;
    unknown += is_ours && !is_known;
    if (is_ours && is_known) seconds += one.seconds * double(runs);
    core::print("{} {}: {}, {} on the fullest rank\n", is_ours ? '*' : ' ', one.one->name(),
                is_known ? fmt::format("{:.3g} s a run", one.seconds) : "time not predicted",
                report::describe_bytes(one.bytes));
  }
  const std::string without = unknown == 0 ? "" : fmt::format(", without {} whose time is not predicted", unknown);
  core::print("  {} of {} cases belong to this launch (*), measured or not: predicted {} with {} runs each{}{}\n", mine,
              planned.size(), report::duration_text(seconds), runs, without, why_no_case(file.cases, launch));
}

/// The columns that have the same value for all cases of this launch. Collective.
store::CaseRecord describe_launch(const BenchLaunch& launch, const comm::Communicator& comm) {
  store::CaseRecord record;
  record.numbers = {{"ranks", double(launch.ranks)}, {"threads", double(core::host_threads())}};
  for (const auto& [name, value] : provenance("", comm)) {
    for (const char* column : {"date", "hosts", "job_id", "version", "instruction_set"}) {
      if (name == column) record.words.emplace_back(name, value);
    }
  }
  return record;
}

/// The cases of this launch that are not measured yet. Earlier launches began the cases in `tried` and did not measure
/// them, so each of these cases is measured alone.
struct LeftToDo {
  std::vector<PlannedCase> fresh, tried;
};
/// Collective.
LeftToDo left_to_do(const std::vector<PlannedCase>& planned, const BenchLaunch& launch,
                    const std::optional<SweepStore>& store, const comm::Communicator& comm) {
  const std::vector<Index> done = comm::numbers_from_root(comm, [&] {
    std::vector<Index> numbers;
    for (const auto& record : store->records()) {
      if (record && is_measured(*record)) numbers.push_back(record->number);
    }
    return numbers;
  });
  const std::vector<Index> begun = comm::numbers_from_root(comm, [&] {
    std::vector<Index> numbers = store->begun();
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  });
  const auto in = [](const std::vector<Index>& numbers, const PlannedCase& one) {
    return std::binary_search(numbers.begin(), numbers.end(), one.one->number);
  };
  LeftToDo left;
  for (PlannedCase one : planned) {
    if (in(done, one) || !belongs(*one.one, launch)) continue;
    one.alone = in(begun, one);
    (one.alone ? left.tried : left.fresh).push_back(one);
  }
  return left;
}

/// Prints the table, and how many cases are measured. Call it on rank 0.
void print_end(const runfile::BenchFile& file, const CaseRecords& records, const Measured& now) {
  core::print("annulus bench {}\n{}", file.shared.name, printed_table(file.cases, records, most_printed));
  const auto measured =
      std::count_if(records.begin(), records.end(), [](const auto& record) { return record && is_measured(*record); });
  core::print("  {} of {} cases are measured, {} of them by this launch\n", measured, records.size(), now.cases);
  if (measured > 0) core::print("  table    {}\n", file.settings.file);
}

int status_of(const CaseRecords& records, const Measured& now) {
  if (now.stopped) return stopped_status;
  if (now.failed > 0) return int(core::ErrorKind::failure);
  const bool wrong = std::any_of(records.begin(), records.end(),
                                 [](const auto& one) { return one && one->word_in("status") == status_wrong; });
  return wrong ? int(core::ErrorKind::verification) : 0;
}

int bench(const Given& given, const comm::Communicator& comm, const std::string& command_line) {
  const runfile::BenchFile file = runfile::read_bench_file(given.words.file, given.words.overrides, comm);
  const Index most = comm.max(Index(core::host_threads())), fewest = -comm.max(-Index(core::host_threads()));
  BenchLaunch launch{comm.size(), most == fewest ? most : 0, {}};
  comm::agree(comm, [&] { launch.task = array_task(); });
  const JobMaker jobs(file, comm);
  const std::vector<PlannedCase> planned =
      check_cases(jobs, comm, [&](const runfile::BenchCase& one) { return given.dry_run || belongs(one, launch); });
  comm::on_root(comm, [&] { check_names(file.settings); });
  if (given.dry_run) {
    if (comm.is_root()) print_plan(file, planned, launch);
    return 0;
  }
  comm::agree(comm, core::require_device);
  std::optional<SweepStore> store;  // exists on rank 0
  comm::on_root(comm, [&] { store.emplace(file, planned); });
  const LeftToDo left = left_to_do(planned, launch, store, comm);
  if (comm.is_root()) {
    core::print_to_stderr("annulus: {} of {} cases to measure here{}\n", left.fresh.size() + left.tried.size(),
                          file.cases.size(), why_no_case(file.cases, launch));
  }
  watch_for_stop(
      comm, patience_seconds / 2.0,
      {patience_seconds,
       "annulus: stopped on request in the middle of a case; finished cases are kept, run again to continue\n"});
  const store::CaseRecord common = describe_launch(launch, comm);
  const CaseListener listener{
      [&](const std::vector<Index>& numbers) { comm::on_root(comm, [&] { store->begin(numbers); }); },
      [&](const store::CaseRecord& record) { comm::on_root(comm, [&] { store->keep(record); }); },
  };
  const auto about = provenance(command_line, comm);
  CaseRecords records;  // filled on rank 0
  const auto make_table = [&] {
    const comm::Scope scope("the making of the table");
    comm::on_root(comm, [&] { records = store->make_table(about); });
  };
  Measured now = measure(jobs, left.fresh, common, listener, comm);
  make_table();
  if (!now.stopped && !left.tried.empty()) {  // last, because these cases may end this launch, too
    const Measured more = measure(jobs, left.tried, common, listener, comm);
    now = {now.cases + more.cases, now.failed + more.failed, more.stopped};
    make_table();
  }
  if (comm.is_root()) {
    print_end(file, records, now);
    if (now.stopped) {
      std::fprintf(stderr, "annulus: stopped on request, finished cases are kept; run again to continue\n");
    }
  }
  return int(comm::numbers_from_root(comm, [&] { return std::vector<Index>{status_of(records, now)}; })[0]);
}

}  // namespace

Verb bench_verb() {
  const auto given = std::make_shared<Given>();
  return {.name = "bench",
          .does = "Measure the cases of a run file's section bench that suit this launch; resumable",
          .example = "mpirun -n 2 annulus bench input/bench/two_ranks.yaml --set bench.repeats=3",
          .options = {run_file(given->words.file, "The run file with a section bench"),
                      overrides(given->words.overrides, "Override a key of the run file (repeatable)"),
                      flag("--dry-run", given->dry_run, "Check and list all cases, measure nothing")},
          .run = [given](const comm::Communicator& comm,
                         const std::string& command_line) { return bench(*given, comm, command_line); },
          .when_ended = "finished cases are kept, run again to continue"};
}

}  // namespace annulus::app
