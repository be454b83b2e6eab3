#include "annulus/app/job/stream_work.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "annulus/app/job/run_identity.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;

/// Looks at results on their way: they have to be numbers, but for the LSE of rows that see no key.
class CheckedRows final : public core::RowSink {
 public:
  /// `to`: nullptr drops them.
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

  /// Rows of a unit lie one after the other.
  void check(StoredTensor tensor, const core::RowPiece& piece) const {
    const core::DType type = tensor == StoredTensor::entropy ? lse_type() : job_.problem.type;
    const Index row = piece.pitch / Index(core::bytes_of(type));
    if (const auto found = store::find_non_finite(piece.memory, type, piece.count * row))
      fail(tensor, piece, row, *found);
  }
  [[noreturn]] void fail(StoredTensor tensor, const core::RowPiece& piece, Index row,
                         const store::NonFinite& found) const {
    const Index head_numbers = std::max<Index>(1, row / std::max<Index>(1, piece.heads.size()));
    const Index at = piece.first + found.index / row, sequence = job_.file_shape().sequence;
    core::fail(core::ErrorKind::failure, "the result's {} holds {} in row {}, head {}{}, {}", core::name_of(tensor),
               found.value, at % sequence, found.index % row / head_numbers,
               job_.file_shape().batch > 1 ? fmt::format(" of batch entry {}", piece.batch + at / sequence) : "",
               causes_of_no_number(job_.problem, 0));
  }

  void look_at_lse(const core::RowPiece& piece) {
    const Index row = piece.pitch / Index(core::bytes_of(lse_type()));
    for (Index i = 0; i < piece.count * row; ++i) {
      const double value = lse_type() == core::DType::float64 ? static_cast<const double*>(piece.memory)[i]
                                                              : double(static_cast<const float*>(piece.memory)[i]);
      if (!std::isfinite(value) && !(value < 0)) fail(StoredTensor::lse, piece, row, {i, value});
      lse_.keyless += std::isinf(value);
      if (std::isfinite(value)) lse_.largest = std::max(lse_.largest, std::abs(value));
    }
    const core::Interval rows{piece.first, piece.first + piece.count};
    const Index none = pattern::count_in_gaps(job_.problem.documents, {rows}) * row;  // these do not exist
    lse_.keyless -= none;
    lse_.rows += piece.count * row - none;
    if (job_.problem.gradients) check_gradients();
  }

  /// On this rank alone.
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

/// Hop 0, and all others together. Phase 1 goes over the triples of the backward pass a second time.
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

}  // namespace

StreamWork::StreamWork(const Job& job)
    : job_(job), passes_(job.problem, job.partition, job.run.settings.input.dlse.has_value(), job.sink()) {}

Cuts StreamWork::cuts() const {
  return {"stream",
          {{"block_rows", job_.stream->block_rows}},
          std::vector<Index>(std::size_t(passes_.phases()), passes_.units())};
}

std::vector<store::TensorSpec> StreamWork::scratch() const {
  if (passes_.phases() == 1) return {};
  core::Shape shape = job_.file_shape();
  shape.head_dim = kernels::normalizer_numbers;
  shape.value_dim = 0;
  return {store::tensor_spec("normalizers", job_.problem.sum_type(), shape, shape.heads, job_.order())};
}

void StreamWork::run(LongRun& long_run, const strategies::Progress& progress) {
  while (const std::optional<Unit> unit = long_run.claim()) {
    const std::string note = compute(*unit, long_run.source(), long_run.sink(), long_run.finished_share(), progress);
    const comm::BlockingScope inside("the flushing of a block's results");
    long_run.finish(*unit, note);
  }
  metrics_.read = long_run.source().traffic();
  if (metrics_.units > 0) metrics_.written = long_run.sink()->traffic();
}

void StreamWork::run_without_file(const comm::Communicator& comm, const strategies::Progress& progress) {
  store::FileRows source;
  for (const StoredTensor tensor : input_tensors(job_)) source.put(tensor, input_origin(job_, tensor));
  for (Index unit = comm.rank(); unit < passes_.units(); unit += comm.size()) {
    compute({0, unit}, source, nullptr, double(unit) / double(passes_.units()), progress);
  }
  metrics_.read = source.traffic();
}

std::string StreamWork::compute(const Unit& unit, core::RowSource& source, core::RowSink* sink, double begun,
                                const strategies::Progress& progress) {
  const int phase = int(unit.phase);
  const Index block = passes_.block_of(unit.index), units = passes_.units() * passes_.phases();
  const std::string name =
      fmt::format("block {} of {}{}", block + 1, passes_.blocks(), phase == 1 ? ", dk and dv" : "");
  const comm::Scope scope(name);
  const core::Span span(name.c_str(), core::SpanKind::pass);
  const strategies::Progress of_unit = [&](double share, const std::string& where) {
    progress(begun + std::min(share, 1.0) / double(units), name + ", " + where);
  };
  CheckedRows checked(job_, sink, metrics_.lse);
  core::memory_ledger().reset_peak();
  const strategies::UnitMetrics made =
      passes_.run(phase, unit.index, source, checked, progress ? of_unit : progress, {});
  metrics_.units += 1;
  metrics_.peak_bytes = std::max(metrics_.peak_bytes, core::memory_ledger().peak());
  metrics_.predicted_bytes = std::max(metrics_.predicted_bytes, passes_.cost(phase, block).memory_bytes);
  add(made.forward, phase, metrics_.forward);
  add(made.backward, phase, metrics_.backward);
  return made.sink_sums.empty() ? "" : sink_note(0, made.sink_sums);
}

}  // namespace annulus::app
