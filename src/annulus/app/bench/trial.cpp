#include "annulus/app/bench/trial.hpp"

#include <algorithm>
#include <limits>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/runfile/run_file.hpp"
#include "annulus/runfile/sweep.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

/// The settings that decide which numbers a case reads. Cases with the same text read the same numbers.
std::string input_text(const Job& job) {
  const runfile::Settings& settings = job.run.settings;
  std::string text;
  for (const auto& key : runfile::run_file_keys()) {
    if (key.name.starts_with("input.") || key.name == "compute.backward") text += key.name + key.text(settings) + "\n";
  }
  return text;
}

/// Takes results in place of a result file. Gathers the sampled rows from the ranks that hold them, and keeps them on
/// every rank, so that every rank can compare any row.
class SampledResult final : public store::RowWriter {
 public:
  SampledResult(const Job& job, const verify::SampledRows& rows, const comm::Communicator& comm)
      : job_(job), rows_(rows), comm_(comm) {}

  void write(const std::vector<store::RowsOut>& tensors, const std::vector<core::Interval>& held,
             const store::RowOwners&) override {
    for (const store::RowsOut& one : tensors) take(one, pattern::StoredRows(held));
  }
  void write_parts(const std::vector<store::MatrixPart>&,
                   const std::function<store::RankOf(const std::string&)>&) override {}  // weights are not compared

  /// Returns rows of the dataset `name` as (B, rows, numbers of a row). Each of `rows` must be a sampled row.
  verify::Numbers operator()(const std::string& name, core::Interval rows) const {
    const Tensor& tensor = tensors_.at(name);
    verify::Numbers part;
    for (Index b = 0; b < batch(); ++b) {
      for (Index row = rows.begin; row < rows.end; ++row) {
        const auto found = std::lower_bound(tensor.rows.begin(), tensor.rows.end(), row);
        core::require(found != tensor.rows.end() && *found == row, [&] { return "row was not gathered of " + name; });
        const auto from = tensor.numbers.begin() + at(tensor, b, found - tensor.rows.begin());
        part.insert(part.end(), from, from + tensor.row_numbers);
      }
    }
    return part;
  }

 private:
  struct Tensor {
    const std::vector<Index>& rows;  // the sampled rows
    Index row_numbers;
    verify::Numbers numbers;  // (B, sampled rows, row_numbers)
  };

  Index batch() const { return job_.problem.shape.batch; }
  static std::ptrdiff_t at(const Tensor& tensor, Index b, Index i) {
    return (b * Index(tensor.rows.size()) + i) * tensor.row_numbers;
  }

  void take(const store::RowsOut& made, const pattern::StoredRows& held) {
    const auto known = core::stored_tensor(made.dataset);
    const bool has_key_rows = known && entry_of(*known).rows == core::StoredTensorEntry::Rows::key;
    const std::vector<Index>& rows = has_key_rows ? rows_.keys : rows_.queries;
    const Index row_numbers =
        known ? heads_of(job_.problem, *known) * head_numbers_of(job_.problem, *known) : job_.layer->width;  // y or dx
    Tensor tensor{rows, row_numbers, verify::Numbers(rows.size() * std::size_t(batch() * row_numbers))};
    const std::size_t row_bytes = std::size_t(row_numbers) * bytes_of(*made.type);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t interval = held.first_ending_after(rows[i]);
      if (interval == held.intervals().size() || held.intervals()[interval].begin > rows[i]) continue;
      const Index stored = held.stored_begin(interval) + rows[i] - held.intervals()[interval].begin;
      for (Index b = 0; b < batch(); ++b) {
        const auto* from =
            static_cast<const std::byte*>(made.host) + std::size_t(b * held.count() + stored) * row_bytes;
        const verify::Numbers row = verify::to_double({from, from + row_bytes}, *made.type);
        std::copy(row.begin(), row.end(), tensor.numbers.begin() + at(tensor, b, Index(i)));
      }
    }
    comm_.add_up(tensor.numbers);
    tensors_.emplace(made.dataset, std::move(tensor));
  }

  const Job& job_;
  const verify::SampledRows rows_;
  const comm::Communicator& comm_;
  std::map<std::string, Tensor> tensors_;
};

double predicted_seconds(const Job& job) {
  if (job.layer) return std::numeric_limits<double>::quiet_NaN();  // the cost model predicts attention only
  const auto cost = planner::predict(*job.strategy, job.problem, job.partition, job.machine);
  return cost ? cost->seconds : std::numeric_limits<double>::quiet_NaN();
}

/// Predicted bytes on the rank that needs most. Local.
double predicted_bytes(const Job& job) {
  if (job.layer) return job.slice_bytes;
  Index most = 0;
  const auto schedule = schedule_of(job, job.problem.gradients ? PassKind::backward : PassKind::forward);
  for (int rank = 0; rank < job.ranks; ++rank) most = std::max(most, schedule->predict(rank).memory_bytes);
  return double(most);
}

}  // namespace

Job JobMaker::job(const runfile::BenchCase& one) const {
  runfile::RunFile run;
  comm::agree(comm_, [&] { run = file_.run_file(one); });
  try {
    const runfile::SweptValue* const asked = one.find(runfile::ranks_word);
    const int ranks = asked == nullptr ? comm_.size() : std::stoi(asked->text);
    const std::optional<std::string>& machine = run.settings.distribution.machine;
    const std::pair key(machine.value_or(""), ranks);
    if (!nodes_.contains(key)) nodes_.emplace(key, nodes_of(machine, ranks, comm_));
    JobOptions options;
    options.ranks = ranks;
    options.nodes = &nodes_.at(key);
    Job job = make_job(make_request(std::move(run), Purpose::run, comm_), options, comm_);
    comm::agree(comm_, [&] {
      if (job.problem.has_own_keys()) {
        refuse(job.run, "input.lengths",
               ": with input.query_offset: none a run computes one batch entry after another, and bench computes all "
               "at once; expected none, or one batch entry");
      }
      check_memory_limit(job);
      if (job.run.settings.compute.memory_limit && job.slice_count() > 1) {
        refuse(job.run, "compute.memory_limit",
               ": a run of this case is cut into {} passes, and bench computes all at once; expected a higher limit",
               job.slice_count());
      }
    });
    return job;
  } catch (const comm::AgreedError& error) {
    throw comm::AgreedError(error.kind(), fmt::format("bench: {}: {}", one.name(), error.what()));
  }
}

PlannedCase JobMaker::plan(const runfile::BenchCase& one, bool predict) const {
  const Job made = job(one);
  PlannedCase planned{&one};
  if (made.input) planned.input_files.emplace_back(*made.run.settings.input.file, made.input->inspected().state);
  for (const auto& other : made.other_input_files()) planned.input_files.push_back(other);
  if (!predict) return planned;
  comm::agree(comm_, [&] {
    planned.seconds = predicted_seconds(made);
    planned.bytes = predicted_bytes(made);
  });
  return planned;
}

Trial::Trial(const JobMaker& jobs, const PlannedCase& planned, const std::vector<std::unique_ptr<Trial>>& others,
             const comm::Communicator& comm)
    : planned_(planned),
      verify_rows_(jobs.file().settings.verify_rows),
      comm_(comm),
      job_(jobs.job(*planned.one)),
      source_(input_rows(job_, comm)),
      work_(make_work(job_, *source_, comm)) {
  comm::agree(comm, [&] {  // the record will say which contents the files had when the case was planned
    for (const auto& [file, state] : planned.input_files) store::check_unchanged(file, state);
  });
  choose_links(job_.run.settings.distribution, comm);
  measured_.predicted_seconds = planned.seconds;
  measured_.predicted_peak_bytes = planned.bytes;
  if (shares_with(others)) return;
  work_->read_inputs();
  if (job_.run.settings.compute.gradients) work_->read_gradients();
}

bool Trial::shares_with(const std::vector<std::unique_ptr<Trial>>& others) {
  const std::string text = input_text(job_);
  return std::any_of(others.begin(), others.end(), [&](const auto& other) {
    if (!other || input_text(other->job_) != text) return false;
    const auto same_rows = [](const auto& one, const auto& two) { return one.intervals() == two.intervals(); };
    const pattern::Partition &theirs = other->job_.partition, &ours = job_.partition;
    return std::equal(theirs.begin(), theirs.end(), ours.begin(), ours.end(), same_rows) &&  // so all ranks agree
           work_->share_inputs(*other->work_);
  });
}

report::Pass Trial::pass(PassKind kind, const strategies::Progress& progress) {
  return report::run_pass(comm_, fmt::format("{} of {}", work_->name(kind), of().name()),
                          [&] { return work_->pass(kind, progress); });
}

void Trial::run(bool counts, bool last, const strategies::Progress& progress) {
  work_->drop_results();
  if (!has_run_) kernels::release_kept_memory();  // frees other cases' buffers: the peak must count only this case's
  const bool gradients = job_.run.settings.compute.gradients, layer = job_.layer.has_value();
  const Index other_bytes = core::memory_ledger().current() - work_->input_bytes();
  core::memory_ledger().reset_peak();
  const kernels::LibraryBackend* const library = kernels::library_of(job_.problem.backend);
  const kernels::ComputedPairs before = library == nullptr ? kernels::ComputedPairs{} : library->computed();
  const double split = gradients ? 1 / 3.5 : 1;  // a backward pass does 2.5 times the work of a forward pass
  const report::Pass forward =
      pass(PassKind::forward, [&](double share, const std::string& where) { progress(split * share, where); });
  Index peak = forward.peak_bytes;
  std::optional<report::Pass> backward;
  if (gradients) {
    backward = pass(PassKind::backward,
                    [&](double share, const std::string& where) { progress(split + (1 - split) * share, where); });
    peak = std::max(peak, backward->peak_bytes);
  }
  measured_.library = library;
  if (library != nullptr) measured_.pairs.add(before, library->computed());
  const comm::Scope scope("the gathering of what was measured");
  const double fullest = double(comm_.max(peak - other_bytes));
  if (!has_run_) measured_.peak_bytes = fullest;  // only once: later runs reuse buffers that other cases left
  has_run_ = true;
  if (!last) work_->drop_results();  // frees memory for the other cases
  if (!counts) return;
  measured_.forward.push_back(gather(forward, work_->predicted_bytes(PassKind::forward), layer, comm_));
  if (backward)
    measured_.backward.push_back(gather(*backward, work_->predicted_bytes(PassKind::backward), layer, comm_));
}

store::CaseRecord Trial::finish(double peak_gflop_per_cpu_second, const store::CaseRecord& launch) {
  const comm::Scope scope("the check of " + of().name());
  const bool gradients = job_.run.settings.compute.gradients;
  // compare_with_definition() will sample the same rows, so only these rows are gathered.
  const verify::AttentionInput input(job_.problem, job_.run.settings.input, job_.input);
  SampledResult result(job_, verify_rows_ > 0 ? sample_rows(input, verify_rows_) : verify::SampledRows(), comm_);
  const report::LseFindings lse = work_->write_outputs(&result);
  if (gradients) {
    check_gradients_mean_something(job_, lse);
    work_->write_gradients(&result);
  }
  if (verify_rows_ > 0) {
    const verify::Sample sample{std::cref(result), nullptr, gradients, verify_rows_, {}};
    measured_.findings = compare_with_definition(job_, sample, comm_);
  }
  measured_.peak_gflop_per_cpu_second = peak_gflop_per_cpu_second;
  return comm_.is_root() ? record_of_case(of(), job_, measured_, launch) : launch;
}

}  // namespace annulus::app
