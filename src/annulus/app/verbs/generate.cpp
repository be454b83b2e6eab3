#include "annulus/app/verbs/generate.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "annulus/app/report/record.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;
using core::Index;
using core::TensorId;

struct Tensor {
  TensorId id;
  io::TensorSpec spec;
};

/// Checks what the command line cannot check number by number.
core::Shape checked_shape(const GenerateOptions& options) {
  core::Shape shape = options.what.shape;
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (const auto objection = io::objection_to(shape)) {
    std::string option = objection->extent;
    std::replace(option.begin(), option.end(), '_', '-');
    fail(ErrorKind::usage, "generate --{}: {}", option, objection->reason);
  }
  return shape;
}

std::vector<Tensor> tensors_of(const GenerateOptions& options, const core::Shape& shape) {
  const core::DType type = options.what.type;
  std::vector<Tensor> tensors{{TensorId::q, io::tensor_spec("q", type, shape, shape.heads)},
                              {TensorId::k, io::tensor_spec("k", type, shape, shape.kv_heads)},
                              {TensorId::v, io::tensor_spec("v", type, shape, shape.kv_heads)}};
  if (options.dout) tensors.push_back({TensorId::dout, io::tensor_spec("dout", type, shape, shape.heads)});
  if (options.dlse) tensors.push_back({TensorId::dlse, io::lse_spec("dlse", type, shape)});
  return tensors;
}

/// The command that makes the same file, defaults written out.
std::string command_line(const GenerateOptions& options, const core::Shape& s) {
  return fmt::format(
      "annulus generate --output {} --sequence {} --heads {} --kv-heads {} --head-dim {} --batch {} --dtype {} --seed "
      "{}{}{}",
      options.output, s.sequence, s.heads, s.kv_heads, s.head_dim, s.batch, core::name_of(options.what.type),
      options.what.seed, options.dout ? " --dout" : "", options.dlse ? " --dlse" : "");
}

}  // namespace

int generate(const GenerateOptions& options, const comm::Communicator& comm) {
  io::GenerateSettings what = options.what;
  comm::agree(comm, [&] { what.shape = checked_shape(options); });
  const core::Shape& shape = what.shape;
  if (options.layer_width) return generate_layer(options, shape, comm);
  const std::vector<Tensor> tensors = tensors_of(options, shape);
  std::vector<io::TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back(tensor.spec);
  io::ResultFile file({options.output, options.overwrite}, specs, comm);

  // One tensor at a time, so that a rank holds its rows of one only.
  const core::Interval rows{shape.sequence * comm.rank() / comm.size(),
                            shape.sequence * (comm.rank() + 1) / comm.size()};
  const auto bytes_of = [&](const io::TensorSpec& spec) {
    Index numbers = shape.batch * rows.size();
    for (std::size_t axis = 2; axis < spec.extents.size(); ++axis) numbers *= spec.extents[axis];
    return std::size_t(numbers) * core::bytes_of(spec.type);
  };
  std::unique_ptr<std::byte[]> host;
  comm::agree(comm, [&] {
    std::size_t largest = 0;
    for (const io::TensorSpec& spec : specs) largest = std::max(largest, bytes_of(spec));
    host = std::make_unique_for_overwrite<std::byte[]>(largest);
  });
  for (const Tensor& tensor : tensors) {
    comm::agree(comm, [&] { io::fill_generated(what, tensor.id, {rows}, host.get()); });
    file.write({{tensor.spec.name, host.get()}}, {rows});
  }
  file.finish({.settings = "", .columns = {}, .provenance = provenance(command_line(options, shape), comm)});
  if (comm.is_root()) {
    std::printf("%s: q, k, v%s%s for %lld x %lld rows, %lld heads (%lld K/V) of %lld, %s, seed %llu\n",
                options.output.c_str(), options.dout ? ", dout" : "", options.dlse ? ", dlse" : "",
                static_cast<long long>(shape.batch), static_cast<long long>(shape.sequence),
                static_cast<long long>(shape.heads), static_cast<long long>(shape.kv_heads),
                static_cast<long long>(shape.head_dim), std::string(core::name_of(what.type)).c_str(),
                static_cast<unsigned long long>(what.seed));
  }
  return 0;
}

}  // namespace annulus::app
