#include "annulus/app/job/slices.hpp"

#include <algorithm>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/report/text.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;

/// Checks results before they are written. All numbers must be finite, but an LSE may be -inf. Does not check
/// normalizers.
class CheckedRows final : public core::RowSink {
 public:
  /// If `to` is nullptr, the results are dropped after the check.
  CheckedRows(const Job& job, core::RowSink* to, report::LseFindings& lse) : job_(job), to_(to), lse_(lse) {}

  void write(StoredTensor tensor, const std::vector<core::RowPiece>& pieces) override {
    for (const core::RowPiece& piece : pieces) {
      if (tensor == StoredTensor::lse) {
        look_at_lse(piece);
      } else if (tensor != StoredTensor::normalizers) {
        check(tensor, piece);
      }
    }
    if (to_ != nullptr) to_->write(tensor, pieces);
  }

 private:
  core::DType lse_type() const { return core::lse_type(job_.problem.type); }

  /// Looks for NaN and infinity in a piece. A unit's rows are contiguous in memory, so `pitch` is the size of one row.
  void check(StoredTensor tensor, const core::RowPiece& piece) const {
    const core::DType type = tensor == StoredTensor::entropy ? lse_type() : job_.problem.type;
    const Index row_numbers = piece.pitch / Index(core::bytes_of(type));
    if (const auto found = store::find_non_finite(piece.memory, type, piece.count * row_numbers))
      fail(tensor, piece, row_numbers, *found);
  }
  [[noreturn]] void fail(StoredTensor tensor, const core::RowPiece& piece, Index row_numbers,
                         const store::NonFinite& found) const {
    const Index head_numbers = std::max<Index>(1, row_numbers / std::max<Index>(1, piece.heads.size()));
    // With input.lengths, `at` counts the rows of all batch entries. The message gives the entry, and the row in it.
    const Index at = piece.first + found.index / row_numbers, sequence = job_.file_shape().sequence;
    core::fail(core::ErrorKind::failure, "the result's {} holds {} in row {}, head {}{}, {}", core::name_of(tensor),
               found.value, at % sequence, found.index % row_numbers / head_numbers,
               job_.file_shape().batch > 1 ? fmt::format(" of batch entry {}", piece.batch + at / sequence) : "",
               causes_of_no_number(job_.problem));
  }

  void look_at_lse(const core::RowPiece& piece) {
    const Index row_numbers = piece.pitch / Index(core::bytes_of(lse_type())), count = piece.count * row_numbers;
    if (const auto found = find_wrong_lse(job_, piece.memory, count))
      fail(StoredTensor::lse, piece, row_numbers, *found);
    const core::Interval rows{piece.first, piece.first + piece.count};
    // Number of LSEs that belong to rows that do not exist (padding).
    const Index missing = pattern::count_in_gaps(job_.problem.documents, {rows}) * row_numbers;
    lse_.add(own_lse_findings(job_, piece.memory, count, missing));
    if (job_.problem.gradients) check_gradients();
  }

  /// check_gradients_mean_something() expects the same `lse` on all ranks. Here one rank calls it on its own, so its
  /// AgreedError becomes an Error of this rank.
  void check_gradients() const {
    try {
      check_gradients_mean_something(job_, lse_);
    } catch (const comm::AgreedError& error) {
      core::fail(error.kind(), "{}", error.what());
    }
  }

  const Job& job_;
  core::RowSink* const to_;
  report::LseFindings& lse_;
};

/// Adds a unit's metrics as two hops: hop 0, and the sum of the other hops. Phase 1 computes the (query, key, head)
/// triples of phase 0 again, so only phase 0 counts them.
void add(const std::optional<core::RankMetrics>& unit, int phase, core::RankMetrics& all) {
  if (!unit) return;
  if (phase == 0) all.rows += unit->rows;
  for (std::size_t h = 0; h < unit->hops.size(); ++h) {
    const core::HopMetrics& from = unit->hops[h];
    core::HopMetrics& to = all.hops[std::min<std::size_t>(h, 1)];
    const core::Count kept = to.kept + (phase == 0 ? from.kept : 0);
    to = core::RankMetrics{0, {to, from}}.total();
    to.kept = kept;
  }
}

/// The work of a rank in this launch, summed over its blocks. There are two hops: hop 0 is the work on a block's own
/// rows, hop 1 is the work on rows that were read from other blocks.
struct StreamMetrics {
  core::RankMetrics forward{0, {{}, {}}}, backward{0, {{}, {}}};
  Index units = 0;
  Index peak_bytes = 0;       ///< measured peak of tensors and buffers
  Index predicted_bytes = 0;  ///< largest predicted peak of the units that the rank computed
  core::RowTraffic read, written;
  report::LseFindings lse;  ///< findings about this rank's rows
};

class StreamWork {
 public:
  explicit StreamWork(const Job& job)
      : job_(job), passes_(job.problem, job.partition, job.run.settings.input.dlse.has_value(), job.sink()) {}

  Cuts cuts() const {
    return {"stream",
            {{"block_rows", job_.stream->block_rows}},
            std::vector<Index>(std::size_t(passes_.phases()), passes_.units())};
  }

  /// Tensors that phase 0 stores in the unfinished result file for phase 1.
  std::vector<store::TensorSpec> scratch() const {
    if (passes_.phases() == 1) return {};
    core::Shape shape = job_.file_shape();
    shape.head_dim = kernels::normalizer_numbers;
    shape.value_dim = 0;
    return {store::tensor_spec("normalizers", job_.problem.sum_type(), shape, job_.order())};
  }

  /// Computes units until none is left for this rank. Local. Throws Error.
  void run(LongRun& long_run, const strategies::Progress& progress) {
    while (const std::optional<Unit> unit = long_run.claim()) {
      const std::string note = compute(*unit, long_run.source(), long_run.sink(), long_run.finished_share(), progress);
      const comm::BlockingScope inside("writing a block's results to disk");
      long_run.finish(*unit, note);
    }
    metrics_.read = long_run.source().traffic();
    if (metrics_.units > 0) metrics_.written = long_run.sink()->traffic();
  }

  /// Does the same if no file is written: divides the units evenly among the ranks, and drops their results. There is
  /// only phase 0, because gradients need a file.
  void run_without_file(const comm::Communicator& comm, const strategies::Progress& progress) {
    store::FileRows source;
    put_inputs(job_, store::Wanted::finite_numbers, source);
    for (Index unit = comm.rank(); unit < passes_.units(); unit += comm.size()) {
      compute({0, unit}, source, nullptr, double(unit) / double(passes_.units()), progress);
    }
    metrics_.read = source.traffic();
  }
  const strategies::BlockPasses& passes() const { return passes_; }
  const StreamMetrics& metrics() const { return metrics_; }

 private:
  /// Computes a unit; if `sink` is nullptr, drops its results. Returns, as text, the unit's sums for the gradients of
  /// the attention's sink logits (no relation to `sink`). `begun`: the finished share of the run before this unit.
  std::string compute(const Unit& unit, core::RowSource& source, core::RowSink* sink, double begun,
                      const strategies::Progress& progress) {
    const int phase = int(unit.phase);
    const Index block = passes_.block_of(unit.index), units = passes_.units() * passes_.phases();
    const std::string name =
        fmt::format("block {} of {}{}", block + 1, passes_.blocks(), phase == 1 ? ", dk and dv" : "");
    const comm::Scope scope(name);
    const core::Span span(name.c_str(), core::SpanKind::pass);
    const strategies::Progress unit_progress = [&](double share, const std::string& where) {
      progress(begun + std::min(share, 1.0) / double(units), name + ", " + where);
    };
    CheckedRows checked(job_, sink, metrics_.lse);
    core::memory_ledger().reset_peak();
    const strategies::UnitMetrics made =
        passes_.run(phase, unit.index, source, checked, progress ? unit_progress : progress, {});
    metrics_.units += 1;
    metrics_.peak_bytes = std::max(metrics_.peak_bytes, core::memory_ledger().peak());
    metrics_.predicted_bytes = std::max(metrics_.predicted_bytes, passes_.cost(phase, block).memory_bytes);
    add(made.forward, phase, metrics_.forward);
    add(made.backward, phase, metrics_.backward);
    return made.sink_sums.empty() ? "" : sink_note(0, made.sink_sums);
  }

  const Job& job_;
  const strategies::BlockPasses passes_;
  StreamMetrics metrics_;
};

/// The floating-point operations of all phases, from which the progress line computes a rate.
report::ProgressLine::Work all_work(const Job& job) {
  const int products = job.problem.gradients ? 2 + 3 + 4 : 2;  // 2 in the forward pass, 3 for dq, 4 for dk and dv
  const pattern::StoredRows all({{0, job.problem.shape.sequence}});
  const double kept = double(strategies::kept_of(job.problem, all));
  return {1e-9 * strategies::flops_of(job.problem.shape, kept, products), "GFLOP"};
}

/// Adds columns to group /run of the result. A column has one number for each rank, which is about this whole launch,
/// not about one pass.
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
  add({"units", "1", "units finished, in all phases"}, double(metrics.units));
  add({"bytes_asked", "bytes", "bytes of rows that were used"}, double(metrics.read.asked));
  add({"bytes_read", "bytes", "bytes read to get the rows that were used"}, double(metrics.read.moved));
  add({"bytes_written", "bytes", "bytes of results written"}, double(metrics.written.moved));
  measured.read_seconds = comm.max(metrics.read.seconds);
  measured.write_seconds = comm.max(metrics.written.seconds);
}

/// Adds lines to the summary. Call it on rank 0. `found`: number of units that earlier launches finished.
void add_lines(const Job& job, Index found, const Index all, report::Measurements& measured) {
  const report::PassMeasurements& forward = measured.forward;
  const double asked = forward.sum("bytes_asked"), read = forward.sum("bytes_read");
  double rate = 0;  // sum over the ranks
  const std::vector<double> bytes = forward.of("bytes_read"), seconds = forward.of("read_seconds");
  for (std::size_t p = 0; p < bytes.size(); ++p) rate += bytes[p] / std::max(seconds[p], 1e-9);
  measured.lines.emplace_back("blocks", describe_blocks(*job.stream));
  measured.lines.emplace_back("units", fmt::format("{:.0f} of {} computed by this launch{}", forward.sum("units"), all,
                                                   found > 0 ? fmt::format(", {} by earlier launches", found) : ""));
  measured.lines.emplace_back("reading",
                              fmt::format("{} for {} that were used, {}/s; {} written", report::describe_bytes(read),
                                          report::describe_bytes(asked), report::describe_bytes(rate),
                                          report::describe_bytes(forward.sum("bytes_written"))));
}

report::Measurements measure(const Job& job, const StreamMetrics& metrics, double seconds,
                             const comm::Communicator& comm) {
  const comm::Scope scope("gathering the measurements");
  report::Measurements measured;
  measured.ranks = comm.size();
  // In phase 0 the passes alternate block by block, so their wall times are not measured. Each pass gets a part of the
  // time, in proportion to its compute and wait seconds.
  const auto busy = [](const core::RankMetrics& one) { return one.total().compute_seconds + one.total().wait_seconds; };
  const double busy_seconds = std::max(busy(metrics.forward) + busy(metrics.backward), 1e-9);
  const auto pass = [&](const core::RankMetrics& made) {
    report::Pass one{.metrics = {.attention = made},
                     .seconds = seconds * busy(made) / busy_seconds,
                     .peak_bytes = metrics.peak_bytes};
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
