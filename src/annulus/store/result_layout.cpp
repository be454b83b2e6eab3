#include "annulus/store/result_layout.hpp"

#include <numeric>

#include "annulus/core/row_store.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {
namespace {

void add_run(hid_t file, const Record& record) {
  const GroupId group = make_group(file, "run");
  for (const auto& [name, value] : record.decisions) add_text(group, name, value);
  add_text_dataset(group, "settings", record.settings);
  std::vector<NamedAxes> axes;
  for (const Column& column : record.columns) {
    const DatasetId dataset = make_dataset(group, column.name, H5T_IEEE_F64LE, space_of(column.extents));
    add_text(dataset, "units", column.units);
    add_text(dataset, "long_name", column.about);
    axes.push_back({column.name, column.extents, column.axes});
    const Index count = std::accumulate(column.extents.begin(), column.extents.end(), Index(1), std::multiplies<>());
    core::require(count == Index(column.values.size()), [&] { return "values of column " + column.name; });
    check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                              column.values.data()),
               "writing /run/{}", column.name);
  }
  add_dimension_scales(group, axes);
}

}  // namespace

Index bytes_of(const TensorSpec& tensor) {
  return std::accumulate(tensor.extents.begin(), tensor.extents.end(), Index(bytes_of(tensor.type)),
                         std::multiplies<>());
}

Index bytes_of(const std::vector<TensorSpec>& tensors, const Alignment& alignment) {
  Index bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    const Index numbers = bytes_of(tensor);
    bytes += std::accumulate(tensor.extents.begin(), tensor.extents.end(), numbers);
    if (numbers >= alignment.from) bytes += alignment.step;
  }
  return bytes;
}

OutputTarget target_of(const runfile::OutputSettings& output) {
  return {output.file, output.overwrite, output.alignment, output.hints};
}

Index bytes_of(const Record& record) {
  std::size_t bytes = record.settings.size();
  for (const Column& column : record.columns) bytes += 2048 + 8 * column.values.size();
  for (const auto* attributes : {&record.provenance, &record.attributes, &record.decisions}) {
    for (const auto& [name, value] : *attributes) bytes += 512 + name.size() + value.size();
  }
  return Index(bytes);
}

void make_layout(const std::string& path, const std::vector<TensorSpec>& tensors, const Alignment& alignment) {
  FileId file = create_alone(path, alignment.from, alignment.step);
  std::vector<NamedAxes> axes;
  for (const TensorSpec& tensor : tensors) {
    const TypeId type = file_type(tensor.type);
    const DatasetId dataset = make_dataset(file, tensor.name, type, space_of(tensor.extents));
    add_text(dataset, "axes", tensor.axes);
    add_text(dataset, "dtype", std::string(name_of(tensor.type)));
    add_text(dataset, "units", tensor.units);
    axes.push_back({tensor.name, tensor.extents, tensor.axes});
  }
  add_dimension_scales(file, axes);
  check_hdf5(file.close(), "{}: closing failed", path);
}

void add_record(const std::string& path, const Record& record) {
  FileId file = open_alone(path, true);
  if (!record.settings.empty()) add_run(file, record);
  for (const auto& [name, value] : record.attributes) add_text(file, name, value);
  if (!record.provenance.empty()) {
    const GroupId group = make_group(file, "provenance");
    for (const auto& [name, value] : record.provenance) add_text(group, name, value);
  }
  check_hdf5(file.close(), "{}: closing failed", path);
}

TensorSpec tensor_spec(const std::string& name, NumberType type, const core::Shape& shape, core::AxisOrder order,
                       Index query_rows, Index top_keys) {
  using Entry = core::StoredTensorEntry;
  const Entry& entry = entry_of(core::stored_tensor(name).value_or(core::StoredTensor::q));
  const bool has_own_rows = entry.rows == Entry::Rows::query && query_rows != 0 && query_rows != shape.sequence;
  const Index heads = entry.heads == Entry::Heads::key ? shape.kv_heads : shape.heads;
  std::vector<Index> extents{shape.batch, has_own_rows ? query_rows : shape.sequence, heads};
  std::vector<std::string> axes{"batch", has_own_rows ? "query" : "sequence",
                                heads == shape.heads ? "head" : "kv_head"};
  if (entry.numbers == Entry::Numbers::top) {
    extents.push_back(top_keys);
    axes.emplace_back("top");
  } else if (entry.numbers != Entry::Numbers::one) {
    extents.push_back(entry.numbers == Entry::Numbers::value ? shape.dim_of_values() : shape.head_dim);
    axes.emplace_back(extents.back() == shape.head_dim ? "dim" : "value_dim");
  }
  return {name,
          type,
          reordered(extents, order),
          fmt::format("{}", fmt::join(reordered(axes, order), " ")),
          order,
          name == "entropy" ? "nats" : "1"};
}

}  // namespace annulus::store
