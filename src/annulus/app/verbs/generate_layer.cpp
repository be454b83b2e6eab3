// `annulus generate --layer`: x, dy, target and the weights of an attention layer.
#include <cmath>
#include <memory>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/report/record.hpp"
#include "annulus/app/verbs/generate.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::app {
namespace {

using core::Index;
using core::TensorId;
using layer::Weight;

/// A problem with the shapes that were asked for; its pattern does not matter here.
layer::LayerProblem shapes_of(const GenerateOptions& options, const core::Shape& shape) {
  layer::LayerProblem problem;
  problem.width = *options.layer_width;
  problem.attention.shape = shape;
  problem.attention.type = options.what.type;
  problem.biases.fill(options.biases);
  return problem;
}

/// Refuses tensors and weights whose bytes do not fit 64 bits, with room for sums of several.
void check_size(const layer::LayerProblem& problem) {
  const core::Shape& s = problem.attention.shape;
  const auto check = [&](const char* what, const char* option, double numbers) {
    if (8 * numbers <= 1e18) return;
    core::fail(core::ErrorKind::usage, "generate: --layer {} and {}: {:.2g} bytes {}, expected at most 1e18",
               problem.width, option, 8 * numbers, what);
  };
  check("in each of x, dy and target", "--sequence", double(s.batch) * double(s.sequence) * double(problem.width));
  check("in each of wq and wo", "--heads", double(problem.width) * double(s.heads) * double(s.head_dim));
}

/// This rank's share of the rows of a tensor, made and written.
void write_generated(const GenerateOptions& options, const std::string& name, const io::GeneratedTensor& tensor,
                     bool is_weight, const comm::Communicator& comm, const io::ResultFile& file) {
  const core::Interval rows = core::even_part(tensor.sequence, comm.size(), comm.rank());
  std::unique_ptr<std::byte[]> host;
  comm::agree(comm, [&] {
    const Index numbers = tensor.batch * rows.size() * tensor.row_numbers;
    host = std::make_unique_for_overwrite<std::byte[]>(std::size_t(numbers) * core::bytes_of(tensor.type));
    io::fill_tensor(options.what.seed, tensor, {rows}, host.get());
  });
  if (is_weight) {
    const io::Rectangle part{rows, {0, tensor.row_numbers}};
    file.write_parts({{name, part, part, host.get()}});
  } else {
    file.write({{name, host.get()}}, {rows});
  }
}

std::string command_line(const GenerateOptions& options, const core::Shape& s) {
  return fmt::format(
      "annulus generate --output {} --layer {} --sequence {} --heads {} --kv-heads {} --head-dim {} --batch {} --dtype "
      "{} --seed {}{}",
      options.output, *options.layer_width, s.sequence, s.heads, s.kv_heads, s.head_dim, s.batch,
      core::name_of(options.what.type), options.what.seed, options.biases ? " --biases" : "");
}

}  // namespace

int generate_layer(const GenerateOptions& options, const core::Shape& shape, const comm::Communicator& comm) {
  const layer::LayerProblem problem = shapes_of(options, shape);
  comm::agree(comm, [&] { check_size(problem); });
  std::vector<io::TensorSpec> specs;
  for (const char* name : {"x", "dy", "target"}) specs.push_back(rows_spec(name, problem));
  for (const io::TensorSpec& weight : weight_specs("", problem)) specs.push_back(weight);
  io::ResultFile file({options.output, options.overwrite}, specs, comm);

  const core::DType type = options.what.type;
  const auto write_rows_of = [&](const char* name, TensorId id) {
    write_generated(options, name, {id, type, shape.batch, shape.sequence, problem.width, 1}, false, comm, file);
  };
  write_rows_of("x", TensorId::x);
  write_rows_of("dy", TensorId::dy);
  write_rows_of("target", TensorId::target);
  for (const Weight weight : layer::all_weights) {
    if (!problem.has(weight)) continue;
    // Columns of length about 1, so that x of variance 1 gives products of variance 1.
    const layer::Box box = layer::whole(problem, weight);
    const double scale = layer::is_bias(weight) ? 0.1 : 1 / std::sqrt(double(box.rows.size()));
    const auto id = TensorId(std::uint64_t(TensorId::wq) + std::uint64_t(weight));
    write_generated(options, std::string(layer::name_of(weight)),
                    {id, type, 1, box.rows.size(), box.columns.size(), scale}, true, comm, file);
  }
  file.finish({.settings = "", .columns = {}, .provenance = provenance(command_line(options, shape), comm)});
  if (comm.is_root()) {
    fmt::print("{}: x, dy, target for {} x {} rows of {}, weights{} of {} heads ({} K/V) of {}, {}, seed {}\n",
               options.output, shape.batch, shape.sequence, problem.width, options.biases ? " and biases" : "",
               shape.heads, shape.kv_heads, shape.head_dim, core::name_of(type), options.what.seed);
  }
  return 0;
}

}  // namespace annulus::app
