#include "annulus/app/job/ranges.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numbers>

#include "annulus/core/storage.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::StoredTensor;

struct Range {
  double smallest;  ///< the smallest normal number
  double largest;
  int digits;  ///< binary digits of products
};
Range range_of(core::Precision precision) {
  if (precision == core::Precision::float64) return {DBL_MIN, DBL_MAX, DBL_MANT_DIG};
  const int digits = precision == core::Precision::tf32             ? 11
                     : precision == core::Precision::three_tf32     ? 21
                     : precision == core::Precision::three_bfloat16 ? 16
                     : precision == core::Precision::six_bfloat16   ? 23
                                                                    : FLT_MANT_DIG;
  return {FLT_MIN, FLT_MAX, digits};
}

double number_at(const void* numbers, core::DType type, Index i) {
  if (type == core::DType::float64) return static_cast<const double*>(numbers)[i];
  return double(static_cast<const float*>(numbers)[i]);
}

/// The part of a dataset that the request's slice reads or writes, and where this part begins in the file.
struct SliceOfDataset {
  store::DatasetInfo info;
  std::vector<Index> first;
};
SliceOfDataset slice_of(const Request& request, store::DatasetInfo info, StoredTensor tensor) {
  SliceOfDataset part{std::move(info), {}};
  part.first.resize(part.info.extents.size());
  if (!request.slice) return part;
  const auto& [batch, kv_heads] = *request.slice;
  const core::Shape& s = request.problem.shape;
  const bool keys = entry_of(tensor).heads == core::StoredTensorEntry::Heads::key;
  const std::size_t heads = core::heads_axis(part.info.order);
  part.info.extents[0] = batch.size();
  part.info.extents[heads] = keys ? s.kv_heads : s.heads;
  part.first[0] = batch.begin;
  part.first[heads] = kv_heads.begin * (keys ? 1 : s.group());
  return part;
}

/// Throws AgreedError(failure) with the NaN or infinity that was found in a result's rows. Collective.
void check_found(const Request& request, const std::string& name, const std::optional<store::NonFinite>& found,
                 const std::vector<core::Interval>& rows, const comm::Communicator& comm) {
  const auto& all = request.results;
  const auto spec = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  core::require(spec != all.end(), [&] { return "the result has no dataset " + name; });
  const SliceOfDataset part = slice_of(request, {spec->extents, spec->type, spec->order},
                                       core::stored_tensor(name).value_or(StoredTensor::out));
  store::check_finite("the result's " + name, found, rows, part.info, comm,
                      fmt::format("on rank {}, {}", comm.rank(), causes_of_no_number(request.problem)), part.first);
}

/// If |lse| is this large, neighbouring representable scores differ by 2 or more. Scores are exponents of 2, so their
/// weights then differ by a factor of 4 or more.
double coarse_from(const Job& job) { return std::ldexp(std::numbers::ln2, range_of(job.problem.precision).digits); }

}  // namespace

std::string causes_of_no_number(const strategies::Problem& problem) {
  std::string text = fmt::format(
      "though all inputs are finite: a number left the range of {}, or the range of tensors stored as {}. "
      "Look for large numbers in the input, and at attention.scale ({:g})",
      core::name_of(problem.precision), core::name_of(problem.type), problem.scale);
  if (problem.type == core::DType::float16) {
    text += "; output in float16 ends at 65504: store tensors as bfloat16 or float32";
  }
  if (problem.reproducible && problem.granule == 1 && problem.precision != core::Precision::float64) {
    text += "; compute.reproducible: true in float32 needs |v| below about 2^42 (4.4e12)";
  }
  if (problem.precision != core::Precision::float64) text += "; compute.precision: float64 has the wider range";
  return text;
}

void check_scores(const Job& job, double q, double k, const comm::Communicator& comm) {
  const strategies::Problem& problem = job.problem;
  const double most_q = comm.max(q), most_k = comm.max(k), most = range_of(problem.precision).largest / 4;
  const double factor = problem.scale * std::numbers::log2e, dim = double(problem.shape.head_dim);
  const double products = most_q * most_k * dim;
  // If products have another type than sums, q.k is computed before it is scaled; otherwise q is scaled first. Kernels
  // may compute 3xbfloat16 and 6xbfloat16 with products of float32, too, so the numbers must fit both orders.
  const double scaled_first = core::is_split(problem.precision)           ? std::max(1.0, factor)
                              : core::has_own_products(problem.precision) ? 1
                                                                          : factor;
  if (scaled_first * most_q <= most && std::max(scaled_first, factor) * products <= most) return;
  throw comm::AgreedError(
      ErrorKind::failure,
      fmt::format(
          "scores may overflow {}: with |q| up to {:g}, |k| up to {:g} and {} numbers each, q.k may reach {:g}, "
          "times attention.scale ({:g}) and log2(e) at most {:.2g} fits. Make q, k or the scale smaller{}",
          core::name_of(problem.precision), most_q, most_k, problem.shape.head_dim, products, problem.scale, most,
          problem.precision != core::Precision::float64 ? ", or use compute.precision: float64" : ""));
}

void check_input(const Request& request, StoredTensor tensor, const void* rows_here, Index bytes,
                 const std::vector<core::Interval>& rows, const comm::Communicator& comm,
                 const store::Spacing& spacing) {
  if (!request.input) return;
  const std::string& dataset = store::dataset_of(request.run.settings.input, tensor);
  const store::InspectedFile& file = request.input->inspected();
  const core::DType type = *file.at(dataset).type.dtype();
  const SliceOfDataset part = slice_of(request, file.at(dataset), tensor);
  store::check_finite(fmt::format("{}: dataset {}", file.path, dataset),
                      store::find_non_finite(rows_here, type, bytes / Index(core::bytes_of(type)),
                                             file.missing_after_reading(part.info), spacing),
                      rows, part.info, comm, "expected finite numbers", part.first);
}

void check_result(const Request& request, const std::string& name, const store::Numbers& numbers, Index bytes,
                  const std::vector<core::Interval>& rows, const comm::Communicator& comm) {
  const core::DType type = *numbers.type.dtype();
  const auto found = store::find_non_finite(numbers.data, type, bytes / Index(core::bytes_of(type)));
  check_found(request, name, found, rows, comm);
}

std::optional<store::NonFinite> find_wrong_lse(const Job& job, const void* lse, Index count) {
  for (Index i = 0; i < count; ++i) {
    const double value = number_at(lse, core::lse_type(job.problem.type), i);
    if (!std::isfinite(value) && !(value < 0)) return store::NonFinite{i, value};
  }
  return std::nullopt;
}

report::LseFindings own_lse_findings(const Job& job, const void* lse, Index count, Index none) {
  report::LseFindings findings{count - none, -none, 0};
  for (Index i = 0; i < count; ++i) {
    const double value = number_at(lse, core::lse_type(job.problem.type), i);
    if (std::isinf(value)) {
      ++findings.keyless;
    } else {
      findings.largest = std::max(findings.largest, std::abs(value));
    }
  }
  return findings;
}

report::LseFindings look_at_lse(const Job& job, const void* lse, const comm::Communicator& comm) {
  const core::Shape& s = job.problem.shape;
  const pattern::StoredRows rows = strategies::in_tensor(job.problem, job.held_queries(comm.rank()));
  const Index count = s.batch * rows.count() * s.heads;
  check_found(job, "lse", find_wrong_lse(job, lse, count), rows.intervals(), comm);
  return lse_findings(job, lse, count, comm);
}

report::LseFindings lse_findings(const Job& job, const void* lse, Index count, const comm::Communicator& comm) {
  // Does not count rows that do not exist, because a "row without keys" must be a row that exists.
  const std::vector<core::Interval> rows = job.held_queries(comm.rank()).intervals();
  const core::Shape& s = job.problem.shape;
  const Index none = pattern::count_in_gaps(job.problem.documents, rows) * s.batch * s.heads;
  const report::LseFindings own = own_lse_findings(job, lse, count, none);
  return {comm.sum(own.rows), comm.sum(own.keyless), comm.max(own.largest)};
}

std::string coarse_scores(const Job& job, const report::LseFindings& lse) {
  if (lse.largest < coarse_from(job)) return "";
  const core::Precision precision = job.problem.precision;
  const double step = std::ldexp(lse.largest, 1 - range_of(precision).digits);
  return fmt::format(
      "|lse| reaches {:.3g}, where {} tells scores apart by about {:.2g}: rounding decides which keys "
      "have weight",
      lse.largest, core::name_of(precision), step);
}

void check_gradients_mean_something(const Job& job, const report::LseFindings& lse) {
  const std::string coarse = coarse_scores(job, lse);
  if (coarse.empty()) return;
  throw comm::AgreedError(
      ErrorKind::failure,
      fmt::format("{}: {}, and gradients would be rounding errors times attention.scale ({:g}); expected |lse| below "
                  "{:.2g}. Make q, k or the scale smaller{}",
                  job.run.settings.train ? "train" : "compute.backward", coarse, job.problem.scale, coarse_from(job),
                  job.problem.precision != core::Precision::float64 ? ", or use compute.precision: float64" : ""));
}

}  // namespace annulus::app
