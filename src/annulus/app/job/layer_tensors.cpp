#include "annulus/app/job/layer_tensors.hpp"

#include <deque>

#include "annulus/app/job/ranges.hpp"
#include "annulus/app/job/tensors.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/fingerprint.hpp"
#include "annulus/io/finite.hpp"

namespace annulus::app {
namespace {

using layer::LayerProblem;
using layer::Weight;

/// Dataset of a weight in the input file; nothing for a bias that the layer has not.
std::optional<std::string> dataset_of(const io::LayerSettings& layer, Weight weight) {
  switch (weight) {
    case Weight::wq:
      return layer.wq;
    case Weight::wk:
      return layer.wk;
    case Weight::wv:
      return layer.wv;
    case Weight::wo:
      return layer.wo;
    case Weight::bq:
      return layer.bq;
    case Weight::bk:
      return layer.bk;
    case Weight::bv:
      return layer.bv;
    case Weight::bo:
      return layer.bo;
  }
  return std::nullopt;
}

io::Rectangle rectangle(const layer::Box& box) { return {box.rows, box.columns}; }

/// Reads kept parts of weights whose datasets `name` knows.
template <class Name, class Read>
layer::Weights load(const LayerProblem& problem, const comm::Communicator& comm, Name&& name, Read&& read) {
  const comm::Place place("the reading of the weights");
  layer::Weights weights;
  comm::agree(comm, [&] { weights = layer::make_weights(problem, comm.rank(), comm.size()); });
  std::deque<HostSide> sides;  // a deque: their addresses stay
  std::vector<io::MatrixPart> parts;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    const io::Rectangle kept = rectangle(layer::kept(problem, weight, comm.rank(), comm.size()));
    sides.emplace_back(weights[weight]);
    parts.push_back({name(weight), kept, kept, sides.back().data()});
  }
  read(parts);
  for (HostSide& side : sides) side.to_device();
  return weights;
}

}  // namespace

LayerProblem layer_problem(const Job& job) {
  const io::LayerSettings& settings = *job.run.settings.layer;
  LayerProblem problem;
  problem.width = job.layer->width();
  problem.attention = job.problem;
  for (const Weight weight : layer::all_weights) {
    if (layer::is_bias(weight)) problem.biases[std::size_t(weight) - 4] = dataset_of(settings, weight).has_value();
  }
  problem.rope = settings.rope;
  for (const layer::ShardingEntry& entry : layer::sharding_table) {
    if (entry.name == settings.sharding) problem.sharding = entry.value;
  }
  try {
    layer::check(problem);
  } catch (const core::Error& error) {  // "layer.rope: ...": the key is in front
    const std::string text = error.what();
    core::fail(error.kind(), "{}{}", job.run.where(text.substr(0, text.find(':'))), text);
  }
  return problem;
}

std::string describe_layer(const Job& job) {
  const io::LayerSettings& settings = *job.run.settings.layer;
  const bool biases = settings.bq || settings.bk || settings.bv || settings.bo;
  return fmt::format("width {}{}{}, sharding {}", job.layer->width(),
                     settings.rope ? fmt::format(", rope base {}", *settings.rope) : "", biases ? ", biases" : "",
                     settings.sharding);
}

Index weight_bytes(const LayerProblem& problem, int rank, int ranks) {
  Index numbers = 0;
  for (const Weight weight : layer::all_weights) numbers += layer::kept(problem, weight, rank, ranks).count();
  return numbers * Index(core::bytes_of(problem.attention.type));
}

io::TensorSpec rows_spec(const std::string& name, const LayerProblem& problem) {
  const core::Shape& s = problem.attention.shape;
  return {name, problem.attention.type, {s.batch, s.sequence, problem.width}, "batch sequence width"};
}

std::vector<io::TensorSpec> weight_specs(const std::string& prefix, const LayerProblem& problem) {
  std::vector<io::TensorSpec> specs;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    const layer::Box box = layer::whole(problem, weight);
    io::TensorSpec spec{prefix + std::string(layer::name_of(weight)), problem.attention.type, {box.rows.size()}, "out"};
    if (!layer::is_bias(weight)) {
      spec.extents.push_back(box.columns.size());
      spec.axes = "in out";
    }
    specs.push_back(spec);
  }
  return specs;
}

core::Buffer load_rows(const Job& job, const layer::Layer& layer, const std::string& dataset,
                       const comm::Communicator& comm) {
  const comm::Place place("the reading of " + dataset);
  const LayerProblem& problem = layer.problem();
  const Index numbers = problem.attention.shape.batch * layer.rows().count() * problem.width;
  core::Buffer buffer;
  comm::agree(comm, [&] { buffer = core::Buffer(dataset, numbers * Index(core::bytes_of(problem.attention.type))); });
  HostSide host(buffer);
  job.layer->read({{dataset, host.data()}}, layer.rows().intervals(), comm);
  host.to_device();
  return buffer;
}

layer::Weights load_weights(const Job& job, const LayerProblem& problem, const comm::Communicator& comm) {
  const io::LayerSettings& settings = *job.run.settings.layer;
  return load(
      problem, comm, [&](Weight weight) { return *dataset_of(settings, weight); },
      [&](const std::vector<io::MatrixPart>& parts) { job.layer->read_weights(parts, comm); });
}

layer::Weights load_weights(const io::SeenFile& file, const LayerProblem& problem, const comm::Communicator& comm) {
  return load(
      problem, comm, [](Weight weight) { return std::string(layer::name_of(weight)); },
      [&](const std::vector<io::MatrixPart>& parts) { io::read_checked_parts(file, parts, comm); });
}

std::uint64_t fingerprint_of(const core::Buffer& rows, const layer::Layer& layer, const comm::Communicator& comm) {
  const comm::Place place("the fingerprint of the data");
  const LayerProblem& problem = layer.problem();
  const core::Shape& s = problem.attention.shape;
  HostSide host(rows);
  host.from_device();
  const Index row_bytes = problem.width * Index(core::bytes_of(problem.attention.type));
  return io::fingerprint({host.data(), layer.rows().intervals(), s.batch, s.sequence, row_bytes}, comm);
}

namespace {

/// Throws Error(failure) where weights, or gradients of such, are none.
void check_numbers(const io::MatrixPart& part, const strategies::Problem& problem, int rank) {
  const auto found = io::find_non_finite(part.host, problem.type, part.kept.count());
  if (!found) return;
  const Index columns = part.kept.columns.size();
  core::fail(core::ErrorKind::failure, "the result's {} holds {} at [{}, {}], {}", part.dataset, found->value,
             part.kept.rows.begin + found->index / columns, part.kept.columns.begin + found->index % columns,
             causes_of_no_number(problem, rank));
}

}  // namespace

void write_rows(const std::string& name, const core::Buffer& rows, const layer::Layer& layer,
                const comm::Communicator& comm, const io::ResultFile& file) {
  const comm::Place place("the writing of " + name);
  HostSide host(rows);
  host.from_device();
  const strategies::Problem& problem = layer.problem().attention;
  const Index count = rows.bytes() / Index(core::bytes_of(problem.type));
  io::check_finite("the result's " + name, io::find_non_finite(host.data(), problem.type, count),
                   layer.rows().intervals(),
                   {{problem.shape.batch, problem.shape.sequence, layer.problem().width}, problem.type}, comm,
                   causes_of_no_number(problem, comm.rank()));
  file.write({{name, host.data()}}, layer.rows().intervals());
}

void write_weights(const std::string& prefix, const layer::Weights& weights, const LayerProblem& problem,
                   const comm::Communicator& comm, const io::ResultFile& file) {
  const comm::Place place("the writing of the weights");
  std::deque<HostSide> sides;
  std::vector<io::MatrixPart> parts;
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    sides.emplace_back(weights[weight]);
    sides.back().from_device();
    parts.push_back({prefix + std::string(layer::name_of(weight)),
                     rectangle(layer::written(problem, weight, comm.rank(), comm.size())),
                     rectangle(layer::kept(problem, weight, comm.rank(), comm.size())), sides.back().data()});
  }
  comm::agree(comm, [&] {
    for (const io::MatrixPart& part : parts) check_numbers(part, problem.attention, comm.rank());
  });
  file.write_parts(parts);
}

}  // namespace annulus::app
