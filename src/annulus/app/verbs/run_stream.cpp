#include "annulus/app/verbs/run_stream.hpp"

#include <algorithm>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/stream_work.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/report/text.hpp"

namespace annulus::app {
namespace {

/// Products of all phases, of D multiply-adds for each kept triple.
report::ProgressLine::Work all_work(const Job& job) {
  const int products = job.problem.gradients ? 2 + 3 + 4 : 2;
  const pattern::StoredRows all({{0, job.problem.shape.sequence}});
  const double kept = double(strategies::kept_of(job.problem, all));
  return {2e-9 * products * job.problem.shape.mean_dim() * kept, "GFLOP"};
}

/// What every rank has in /run beside what passes measure.
void add_columns(const StreamMetrics& metrics, const comm::Communicator& comm, report::Measurements& measured) {
  std::vector<store::Column>& columns = measured.forward.per_rank;
  const auto add = [&](const report::Quantity& quantity, double value) {
    columns.push_back(report::per_rank(quantity, value, comm));
  };
  columns.insert(columns.begin(),
                 report::per_rank({"rows", "1", "rows of the blocks computed"}, double(metrics.forward.rows), comm));
  add({"peak_resident_bytes", "bytes", "peak of the process, libraries included"}, double(core::peak_resident_bytes()));
  add({"read_seconds", "s", "time in which a thread was reading"}, metrics.read.seconds);
  add({"write_seconds", "s", "wall time writing the result"}, metrics.written.seconds);
  add({"units", "1", "parts finished, blocks of either phase"}, double(metrics.units));
  add({"bytes_asked", "bytes", "bytes of rows that were used"}, double(metrics.read.asked));
  add({"bytes_read", "bytes", "bytes read for them"}, double(metrics.read.moved));
  add({"bytes_written", "bytes", "bytes of results written"}, double(metrics.written.moved));
  measured.read_seconds = comm.max(metrics.read.seconds);
  measured.write_seconds = comm.max(metrics.written.seconds);
}

/// Lines of the summary; on rank 0.
void add_lines(const Job& job, Index found, const Index all, report::Measurements& measured) {
  const report::PassMeasurements& forward = measured.forward;
  const double asked = forward.sum("bytes_asked"), read = forward.sum("bytes_read");
  double rate = 0;  // of the ranks together
  const std::vector<double> bytes = forward.of("bytes_read"), seconds = forward.of("read_seconds");
  for (std::size_t p = 0; p < bytes.size(); ++p) rate += bytes[p] / std::max(seconds[p], 1e-9);
  measured.lines.emplace_back("blocks", describe_blocks(*job.stream));
  measured.lines.emplace_back("parts",
                              fmt::format("{:.0f} of {} computed{}", forward.sum("units"), all,
                                          found > 0 ? fmt::format(", {} by launches before this one", found) : ""));
  measured.lines.emplace_back("reading",
                              fmt::format("{} for {} that were used, {}/s; {} written", report::describe_bytes(read),
                                          report::describe_bytes(asked), report::describe_bytes(rate),
                                          report::describe_bytes(forward.sum("bytes_written"))));
}

report::Measurements measure(const Job& job, const StreamMetrics& metrics, double seconds,
                             const comm::Communicator& comm) {
  const comm::Scope scope("the gathering of what was measured");
  report::Measurements measured;
  measured.ranks = comm.size();
  // Passes take turns, block after block: each has the share of the time that it computed and waited.
  const auto busy = [](const core::RankMetrics& of) { return of.total().compute_seconds + of.total().wait_seconds; };
  const double both = std::max(busy(metrics.forward) + busy(metrics.backward), 1e-9);
  const auto pass = [&](const core::RankMetrics& of) {
    report::Pass one{
        .metrics = {.attention = of}, .seconds = seconds * busy(of) / both, .peak_bytes = metrics.peak_bytes};
    return gather(one, metrics.predicted_bytes, false, comm);
  };
  measured.forward = pass(metrics.forward);
  if (job.problem.gradients) measured.backward = pass(metrics.backward);
  add_columns(metrics, comm, measured);
  measured.lse = {comm.sum(metrics.lse.rows), comm.sum(metrics.lse.keyless), comm.max(metrics.lse.largest)};
  return measured;
}

}  // namespace

std::optional<report::Measurements> compute_blocks(
    const Job& job, const std::function<store::Record(const report::Measurements&)>& finish,
    const comm::Communicator& comm, WhyUnfinished& rest) {
  StreamWork work(job);
  std::optional<LongRun> long_run;
  if (job.run.settings.output.writes_file()) long_run.emplace(job, work.cuts(), work.scratch(), comm);
  const Index found = long_run ? long_run->found_finished() : 0, all = work.passes().units() * work.passes().phases();
  const double begun = long_run ? long_run->finished_share() : 0;
  const report::Pass pass = report::run_pass(comm, "the blocks", [&] {
    report::ProgressLine progress(comm.is_root(), all_work(job), begun);
    if (long_run) {
      work.run(*long_run, progress.shown());
    } else {
      work.run_without_file(comm, progress.shown());
    }
    return core::LayerMetrics{};
  });
  report::Measurements measured = measure(job, work.metrics(), pass.seconds, comm);
  if (comm.is_root()) add_lines(job, found, all, measured);
  if (long_run && !long_run->complete([&] { return finish(measured); })) {
    rest = long_run->why_unfinished();
    return std::nullopt;
  }
  return measured;
}

}  // namespace annulus::app
