#include "annulus/io/tensor_file.hpp"

#include "annulus/io/attributes.hpp"
#include "annulus/io/dataset_checks.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/tensor_checks.hpp"
#include "annulus/io/transfer.hpp"

namespace annulus::io {

using core::DType;
using core::ErrorKind;
using core::fail;
using core::Interval;

TensorFile::TensorFile(const InputSettings& input, const comm::Communicator& comm, bool gradients)
    : file_{*input.file, identity_together(*input.file, comm), {}} {
  const std::vector<Index> seen = numbers_from_root(comm, [&] {
    const FileId file = open_alone(file_.path, false);
    const auto [shape, type, order] = describe_tensors(file, input, gradients);
    std::vector<Index> numbers{shape.batch,    shape.sequence, shape.heads, shape.kv_heads,
                               shape.head_dim, Index(type),    Index(order)};
    const pattern::Documents documents = read_documents(file, file_.path, input.documents, shape.sequence);
    numbers.insert(numbers.end(), documents.begin(), documents.end());
    return numbers;
  });
  shape_ = {seen[0], seen[1], seen[2], seen[3], seen[4]};
  type_ = DType(seen[5]);
  order_ = AxisOrder(seen[6]);
  documents_.assign(seen.begin() + 7, seen.end());

  const auto [batch, sequence, heads, kv_heads, head_dim] = shape_;
  const auto add = [&](const std::string& name, const std::vector<Index>& extents, DType type) {
    file_.datasets[name] = {reordered(extents, order_), type, order_};
  };
  add(input.q, {batch, sequence, heads, head_dim}, type_);
  for (const std::string& name : {input.k, input.v}) add(name, {batch, sequence, kv_heads, head_dim}, type_);
  if (!gradients) return;
  add(input.dout, {batch, sequence, heads, head_dim}, type_);
  if (input.dlse) add(*input.dlse, {batch, sequence, heads}, core::lse_type(type_));
}

void TensorFile::read(const std::vector<RowsIn>& tensors, const std::vector<Interval>& rows,
                      const comm::Communicator& comm, Index piece_bytes) const {
  read_checked_rows(file_, tensors, rows, comm, piece_bytes);
}

DatasetInfo look_at_dataset(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{}: dataset {} has no type", path, name));
  const auto known = dtype_of(type);
  if (!known) fail(ErrorKind::failure, "{}: dataset {} is {}, expected a float", path, name, describe_type(type));
  const std::vector<hsize_t> extents = extents_of(dataset);
  return {{extents.begin(), extents.end()}, *known};
}

std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const std::vector<std::string> texts = texts_of(file, name);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

std::string read_text_dataset(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const SpaceId space(check_hdf5(H5Dget_space(dataset), "{}: dataset {}", path, name));
  if (H5Sget_simple_extent_npoints(space) != 1) {  // the read below has room for one
    core::fail(core::ErrorKind::failure, "{}: dataset {} holds no text: expected one string", path, name);
  }
  const TypeId type = text_type();
  char* text = nullptr;  // allocated by HDF5
  check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text),
             "{}: dataset {} holds no text", path, name);
  const std::string copy = text == nullptr ? "" : text;
  H5free_memory(text);
  return copy;
}

}  // namespace annulus::io
