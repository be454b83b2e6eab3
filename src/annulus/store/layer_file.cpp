#include "annulus/store/input_file.hpp"

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/store/hdf5/dataset_checks.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

/// A weight that a layer needs: its key in the run file, its dataset, the names of its axes, and its extents.
struct WantedWeight {
  const char* key;
  std::string dataset;
  const char* axes;
  std::vector<Index> extents;
};
std::vector<WantedWeight> weights_of(const runfile::LayerSettings& layer, Index width, Index head_dim) {
  const Index queries = layer.heads * head_dim, keys = layer.kv_heads * head_dim;
  std::vector<WantedWeight> all{{"layer.wq", layer.wq, "(width, heads * head_dim)", {width, queries}},
                                {"layer.wk", layer.wk, "(width, kv_heads * head_dim)", {width, keys}},
                                {"layer.wv", layer.wv, "(width, kv_heads * head_dim)", {width, keys}},
                                {"layer.wo", layer.wo, "(heads * head_dim, width)", {queries, width}}};
  const auto add = [&](const char* key, const std::optional<std::string>& bias, const char* axes, Index numbers) {
    if (bias) all.push_back({key, *bias, axes, {numbers}});
  };
  add("layer.bq", layer.bq, "(heads * head_dim)", queries);
  add("layer.bk", layer.bk, "(kv_heads * head_dim)", keys);
  add("layer.bv", layer.bv, "(kv_heads * head_dim)", keys);
  add("layer.bo", layer.bo, "(width)", width);
  return all;
}

FileContents describe(hid_t file, const runfile::Settings& settings, LayerExtras extras) {
  const std::string& path = *settings.input.file;
  const runfile::LayerSettings& layer = *settings.layer;
  const char* row_axes = "(batch, sequence, width)";
  const FoundDataset x =
      look_at(file, path, layer.x, row_axes, "layer.x names it; `annulus generate --layer` makes a layer's file");
  const FoundDataset wq = look_at(file, path, layer.wq, "(width, heads * head_dim)", "layer.wq names it");
  if (wq.extents[1] % layer.heads != 0) {
    fail(ErrorKind::failure, "{} has {} columns, expected a multiple of layer.heads, {}", wq.where, wq.extents[1],
         layer.heads);
  }
  const Index width = x.extents[2], head_dim = wq.extents[1] / layer.heads;
  if (head_dim > core::most_head_dim) {
    fail(ErrorKind::failure, "{} has {} columns for {} heads: head_dim is {}, expected 1 to {}", wq.where,
         wq.extents[1], layer.heads, head_dim, core::most_head_dim);
  }
  for (const WantedWeight& wanted : weights_of(layer, width, head_dim)) {
    const FoundDataset weight = look_at(file, path, wanted.dataset, wanted.axes, std::string(wanted.key) + " names it");
    check_type(weight, x.type, x.where);
    check_extents(
        weight, wanted.extents,
        fmt::format("x {}, {} heads and {} K/V heads of {}", x.shape_text(), layer.heads, layer.kv_heads, head_dim));
  }
  const auto check_like_x = [&](const std::string& name, const char* asked_by) {
    const FoundDataset found = look_at(file, path, name, row_axes, asked_by);
    check_type(found, x.type, x.where);
    check_extents(found, x.extents, "x " + x.shape_text());
  };
  if (extras.dy) check_like_x(layer.dy, "layer.dy names it, compute.backward: true reads it");
  if (extras.target) check_like_x(settings.train->target, "train.target names it");
  const Index rows = x.extents[1];
  FileContents contents{
      {x.extents[0], rows, layer.heads, layer.kv_heads, head_dim}, x.type, core::AxisOrder::bshd, width, rows, {}};
  if (const auto& dataset = settings.input.coordinates) {
    const std::string to_fit = fmt::format("x {} of {} rows", x.shape_text(), rows);
    contents.coordinates = read_coordinates(file, path, *dataset, rows, to_fit);
  }
  return contents;
}

}  // namespace

InputFile layer_file(const runfile::Settings& settings, LayerExtras extras, const comm::Communicator& comm) {
  InspectedFile file{*settings.input.file, agreed_state(*settings.input.file, comm), {}};
  FileContents found =
      agreed_contents(file, settings.input, comm, [&](hid_t open) { return describe(open, settings, extras); });
  const DatasetInfo like_x{{found.shape.batch, found.shape.sequence, found.width}, found.type};
  file.datasets[settings.layer->x] = like_x;
  if (extras.dy) file.datasets[settings.layer->dy] = like_x;
  if (extras.target) file.datasets[settings.train->target] = like_x;
  for (const WantedWeight& weight : weights_of(*settings.layer, found.width, found.shape.head_dim)) {
    file.datasets[weight.dataset] = {weight.extents, found.type};
  }
  look_at_storage(file, settings.input, comm);
  return {std::move(file), std::move(found)};
}

void read_parts(const InspectedFile& file, const std::vector<MatrixPart>& parts, const comm::Communicator& comm) {
  const comm::Scope scope("reading " + file.path);
  comm::agree(comm, [&] {
    for (const MatrixPart& part : parts) read_part(file, part);
  });
}

}  // namespace annulus::store
