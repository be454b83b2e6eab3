#include "annulus/app/job/layer_tensors.hpp"

#include <array>
#include <deque>
#include <functional>

#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/store/fingerprint.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::app {
namespace {

using layer::LayerProblem;
using layer::Weight;

/// Names of each weight's axes. `width` is that of x, `q_width` that of q, `kv_width` that of k and v, with all heads.
constexpr std::array axes_of_weights{"width q_width", "width kv_width", "width kv_width", "q_width width",
                                     "q_width",       "kv_width",       "kv_width",       "width"};

Weight weight_called(const std::string& name) {
  for (const Weight weight : layer::all_weights) {
    if (layer::name_of(weight) == name) return weight;
  }
  core::fail(core::ErrorKind::failure, "no weight is called {}", name);
}

/// The rank that writes the number at (row, column) of a weight to a file.
int rank_that_writes(const LayerProblem& problem, Weight weight, int ranks, Index row, Index column) {
  for (int rank = 0; rank < ranks; ++rank) {
    const core::Rectangle box = layer::written(problem, weight, rank, ranks);
    const auto is_in = [](core::Interval interval, Index i) { return interval.begin <= i && i < interval.end; };
    if (is_in(box.rows, row) && is_in(box.columns, column)) return rank;
  }
  return 0;
}

/// Reads the parts of the weights that this rank keeps; `name` returns a weight's dataset.
layer::Weights load(const LayerProblem& problem, const store::InspectedFile& file, const comm::Communicator& comm,
                    const std::function<std::string(Weight)>& name) {
  const comm::Scope scope("the reading of the weights");
  layer::Weights weights;
  comm::agree(comm, [&] { weights = layer::make_weights(problem, comm.rank(), comm.size()); });
  std::deque<HostSide> sides;  // a deque, because its elements keep their addresses
  std::vector<store::MatrixPart> parts;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    const core::Rectangle kept = layer::kept(problem, weight, comm.rank(), comm.size());
    sides.emplace_back(weights[weight]);
    parts.push_back({name(weight), kept, kept, sides.back().data()});
  }
  store::read_parts(file, parts, comm);
  for (HostSide& side : sides) side.to_device();
  return weights;
}

}  // namespace

store::TensorSpec rows_spec(const std::string& name, const LayerProblem& problem, std::optional<core::DType> type) {
  const core::Shape& s = problem.attention.shape;
  return {name, type.value_or(problem.attention.type), {s.batch, s.sequence, problem.width}, "batch sequence width"};
}

std::vector<store::TensorSpec> weight_specs(const std::string& prefix, const LayerProblem& problem,
                                            std::optional<core::DType> type) {
  std::vector<store::TensorSpec> specs;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    const core::Rectangle box = layer::whole(problem, weight);
    store::TensorSpec spec{prefix + std::string(layer::name_of(weight)),
                           type.value_or(problem.attention.type),
                           {box.rows.size()},
                           axes_of_weights[std::size_t(weight)]};
    if (!layer::is_bias(weight)) spec.extents.push_back(box.columns.size());
    specs.push_back(spec);
  }
  return specs;
}

core::Buffer load_rows(const Request& request, const layer::Layer& layer, const std::string& dataset,
                       const comm::Communicator& comm) {
  const comm::Scope scope("the reading of " + dataset);
  const LayerProblem& problem = layer.problem();
  const Index numbers = problem.attention.shape.batch * layer.rows().count() * problem.width;
  core::Buffer buffer;
  comm::agree(comm, [&] { buffer = core::Buffer(dataset, numbers * Index(core::bytes_of(problem.attention.type))); });
  HostSide host(buffer);
  request.input->read({{dataset, host.data()}}, layer.rows().intervals(), comm);
  host.to_device();
  return buffer;
}

layer::Weights load_weights(const Request& request, const LayerProblem& problem, const comm::Communicator& comm) {
  const runfile::LayerSettings& layer = *request.run.settings.layer;
  const std::array<std::optional<std::string>, 8> datasets{layer.wq, layer.wk, layer.wv, layer.wo,
                                                           layer.bq, layer.bk, layer.bv, layer.bo};
  return load(problem, request.input->inspected(), comm, [&](Weight weight) { return *datasets[std::size_t(weight)]; });
}

layer::Weights load_weights(const store::InspectedFile& file, const LayerProblem& problem,
                            const comm::Communicator& comm) {
  return load(problem, file, comm, [](Weight weight) { return std::string(layer::name_of(weight)); });
}

std::uint64_t fingerprint_of(const core::Buffer& rows, const layer::Layer& layer, const comm::Communicator& comm) {
  const comm::Scope scope("the fingerprint of the data");
  const LayerProblem& problem = layer.problem();
  const core::Shape& s = problem.attention.shape;
  HostSide host(rows);
  host.from_device();
  const Index row_bytes = problem.width * Index(core::bytes_of(problem.attention.type));
  return store::fingerprint({host.data(), layer.rows().intervals(), s.batch, s.sequence, row_bytes}, comm);
}

std::uint64_t fingerprint_of(const layer::Weights& weights, const LayerProblem& problem,
                             const comm::Communicator& comm) {
  std::uint64_t sum = 0;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    HostSide side(weights[weight]);
    side.from_device();
    sum += store::fingerprint_share(
        {std::string(layer::name_of(weight)), layer::written(problem, weight, comm.rank(), comm.size()),
         layer::kept(problem, weight, comm.rank(), comm.size()), side.data(), problem.attention.type},
        std::uint64_t(weight));
    comm::watchdog_progress();  // other ranks may be waiting for this rank
  }
  std::uint64_t all = 0;  // unsigned, because the sum may overflow; comm.sum() would add signed numbers
  for (const Index part : comm.gather_all(Index(sum))) all += std::uint64_t(part);
  return all;
}

void write_weights(const std::string& prefix, const layer::Weights& weights, const LayerProblem& problem,
                   const std::string& causes, const comm::Communicator& comm, store::RowWriter* file) {
  const comm::Scope scope("the writing of the weights");
  std::deque<HostSide> sides;
  std::vector<store::MatrixPart> parts;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    sides.emplace_back(weights[weight]);
    sides.back().from_device();
    parts.push_back(
        {prefix + std::string(layer::name_of(weight)), layer::written(problem, weight, comm.rank(), comm.size()),
         layer::kept(problem, weight, comm.rank(), comm.size()), sides.back().data(), problem.attention.type});
  }
  comm::agree(comm, [&] {
    for (const store::MatrixPart& part : parts) {
      store::check_finite("the result's " + part.dataset, part, problem.attention.type, causes);
    }
  });
  if (file == nullptr) return;
  file->write_parts(parts, [&](const std::string& dataset) -> store::RankOf {
    const Weight weight = weight_called(dataset.substr(prefix.size()));
    return [&problem, weight, ranks = comm.size()](const store::OneNumber& at) {
      return rank_that_writes(problem, weight, ranks, at.row, at.head);
    };
  });
}

verify::Findings compare_with_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm) {
  if (!request.layer) {
    return verify_attention({request.problem, request.run.settings.input, request.input}, sample, comm);
  }
  layer::LayerProblem whole = *request.layer;
  whole.sharding = layer::Sharding::none;  // because verify_layer() needs all weights on every rank
  const layer::Weights weights = load_weights(request, whole, comm);
  return verify_layer({whole, *request.run.settings.layer, request.input->inspected(), weights}, sample, comm);
}

}  // namespace annulus::app
