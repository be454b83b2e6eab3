#include "annulus/io/tensor_file.hpp"

#include <algorithm>

#include "annulus/io/dataset_checks.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/transfer.hpp"

namespace annulus::io {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;
using core::Interval;
using core::Shape;

struct Description {
  Shape shape;
  DType type = DType::float32;
};

constexpr const char* query_axes = "(batch, sequence, heads, head_dim)";

/// k and v against q (B, S, H, D): all extents but the heads are q's, the heads divide q's.
void check_against_q(const FoundDataset& tensor, const FoundDataset& q) {
  check_type(tensor, q.type, q.where);
  for (const std::size_t axis : {0, 1, 3}) {
    if (tensor.extents[axis] != q.extents[axis]) {
      fail(ErrorKind::failure, "{} has shape {}, expected ({}, {}, kv_heads, {}) to fit q {}", tensor.where,
           tensor.shape_text(), q.extents[0], q.extents[1], q.extents[3], q.shape_text());
    }
  }
  if (q.extents[2] % tensor.extents[2] != 0) {
    fail(ErrorKind::failure, "{} has {} heads, expected a divisor of the {} heads of q", tensor.where,
         tensor.extents[2], q.extents[2]);
  }
}

/// dout (B, S, H, D) in q's type, dlse (B, S, H) in lse's type.
void check_gradients(hid_t file, const InputSettings& input, const FoundDataset& q) {
  const FoundDataset dout =
      look_at(file, *input.file, input.dout, query_axes,
              "input.dout names it, compute.backward: true reads it; `annulus generate --dout` makes one");
  check_type(dout, q.type, q.where);
  check_extents(dout, q.extents, "q " + q.shape_text());
  if (!input.dlse) return;
  const FoundDataset dlse = look_at(file, *input.file, *input.dlse, "(batch, sequence, heads)",
                                    "input.dlse names it; `annulus generate --dlse` makes one");
  check_type(dlse, core::lse_type(q.type), "the lse of " + std::string(core::name_of(q.type)) + " tensors");
  check_extents(dlse, {q.extents[0], q.extents[1], q.extents[2]}, "q " + q.shape_text());
}

Description describe_tensors(hid_t file, const InputSettings& input, bool gradients) {
  const char* kv_axes = "(batch, sequence, kv_heads, head_dim)";
  const FoundDataset q = look_at(file, *input.file, input.q, query_axes,
                                 "input.q names it; for a layer's file a section layer is missing");
  const FoundDataset k = look_at(file, *input.file, input.k, kv_axes, "input.k names it");
  const FoundDataset v = look_at(file, *input.file, input.v, kv_axes, "input.v names it");
  if (q.extents[3] > 256) {
    fail(ErrorKind::failure, "{} has head_dim {}, expected 1 to 256", q.where, q.extents[3]);
  }
  check_against_q(k, q);
  check_against_q(v, q);
  if (v.extents[2] != k.extents[2]) {
    fail(ErrorKind::failure, "{} has {} heads, expected {} as k", v.where, v.extents[2], k.extents[2]);
  }
  if (gradients) check_gradients(file, input, q);
  return {{q.extents[0], q.extents[1], q.extents[2], k.extents[2], q.extents[3]}, q.type};
}

}  // namespace

TensorFile::TensorFile(const InputSettings& input, const comm::Communicator& comm, bool gradients)
    : path_(*input.file) {
  const std::vector<Index> seen = numbers_from_root(comm, [&] {
    const FileId file = open_alone(path_, false);
    const auto [shape, type] = describe_tensors(file, input, gradients);
    std::vector<Index> numbers{shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_dim, Index(type)};
    const pattern::Documents documents = read_documents(file, path_, input.documents, shape.sequence);
    numbers.insert(numbers.end(), documents.begin(), documents.end());
    return numbers;
  });
  shape_ = {seen[0], seen[1], seen[2], seen[3], seen[4]};
  type_ = DType(seen[5]);
  documents_.assign(seen.begin() + 6, seen.end());

  const auto [batch, sequence, heads, kv_heads, head_dim] = shape_;
  tensors_[input.q] = {{batch, sequence, heads, head_dim}, type_};
  for (const std::string& name : {input.k, input.v}) tensors_[name] = {{batch, sequence, kv_heads, head_dim}, type_};
  if (gradients) {
    tensors_[input.dout] = {{batch, sequence, heads, head_dim}, type_};
    if (input.dlse) tensors_[*input.dlse] = {{batch, sequence, heads}, core::lse_type(type_)};
  }
}

void TensorFile::read(const std::vector<RowsIn>& tensors, const std::vector<Interval>& rows,
                      const comm::Communicator& comm, Index piece_bytes) const {
  read_checked_rows(path_, tensors_, tensors, rows, comm, piece_bytes);
}

void TensorFile::read_alone(const RowsIn& tensor, Interval rows) const { read_rows_alone(path_, tensor, rows); }

DatasetInfo look_at_dataset(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{}: dataset {} has no type", path, name));
  const auto known = dtype_of(type);
  if (!known) fail(ErrorKind::failure, "{}: dataset {} is {}, expected a float", path, name, describe_type(type));
  const std::vector<hsize_t> extents = extents_of(dataset);
  return {{extents.begin(), extents.end()}, *known};
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
