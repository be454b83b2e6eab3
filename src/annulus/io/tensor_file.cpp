#include "annulus/io/tensor_file.hpp"

#include <algorithm>
#include <cstring>

#include "annulus/io/finite.hpp"
#include "annulus/io/hdf5_support.hpp"
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

/// Extents and type of one dataset, with the words for errors about it.
struct Tensor {
  std::string where;  // "FILE: dataset /q"
  std::vector<hsize_t> extents;
  DType type = DType::float32;

  Index extent(int axis) const { return Index(extents[std::size_t(axis)]); }
  std::string shape_text() const { return fmt::format("({})", fmt::join(extents, ", ")); }
};

Tensor look_at(hid_t file, const std::string& path, const std::string& name, const char* axes) {
  const DatasetId dataset = open_dataset(file, path, name);
  Tensor tensor{fmt::format("{}: dataset {}", path, name), extents_of(dataset)};
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", tensor.where));
  const auto known = dtype_of(type);
  if (!known) {
    fail(ErrorKind::failure, "{} is {}, expected float64, float32, float16 or bfloat16", tensor.where,
         describe_type(type));
  }
  tensor.type = *known;
  if (tensor.extents.size() != 4) {
    fail(ErrorKind::failure, "{} has {} axes {}, expected 4: {}", tensor.where, tensor.extents.size(),
         tensor.shape_text(), axes);
  }
  if (std::count(tensor.extents.begin(), tensor.extents.end(), 0u) > 0) {
    fail(ErrorKind::failure, "{} is empty: {}, expected {}", tensor.where, tensor.shape_text(), axes);
  }
  return tensor;
}

/// k and v against q (B, S, H, D): all extents but the heads are q's, the heads divide q's.
void check_against_q(const Tensor& tensor, const Tensor& q) {
  if (tensor.type != q.type) {
    fail(ErrorKind::failure, "{} is {}, expected {} as {}", tensor.where, core::name_of(tensor.type),
         core::name_of(q.type), q.where);
  }
  for (const int axis : {0, 1, 3}) {
    if (tensor.extent(axis) != q.extent(axis)) {
      fail(ErrorKind::failure, "{} has shape {}, expected ({}, {}, kv_heads, {}) to fit q {}", tensor.where,
           tensor.shape_text(), q.extent(0), q.extent(1), q.extent(3), q.shape_text());
    }
  }
  if (q.extent(2) % tensor.extent(2) != 0) {
    fail(ErrorKind::failure, "{} has {} heads, expected a divisor of the {} heads of q", tensor.where, tensor.extent(2),
         q.extent(2));
  }
}

Description describe_tensors(hid_t file, const InputSettings& input) {
  const char* kv_axes = "(batch, sequence, kv_heads, head_dim)";
  const Tensor q = look_at(file, *input.file, input.q, "(batch, sequence, heads, head_dim)");
  const Tensor k = look_at(file, *input.file, input.k, kv_axes);
  const Tensor v = look_at(file, *input.file, input.v, kv_axes);
  if (q.extent(3) > 256) {
    fail(ErrorKind::failure, "{} has head_dim {}, expected 1 to 256", q.where, q.extent(3));
  }
  check_against_q(k, q);
  check_against_q(v, q);
  if (v.extent(2) != k.extent(2)) {
    fail(ErrorKind::failure, "{} has {} heads, expected {} as k", v.where, v.extent(2), k.extent(2));
  }
  return {{q.extent(0), q.extent(1), q.extent(2), k.extent(2), q.extent(3)}, q.type};
}

/// Document offsets: 0 = d0 <= d1 <= ... = sequence.
pattern::Documents read_documents(hid_t file, const std::string& path, const std::string& name, Index sequence) {
  const DatasetId dataset = open_dataset(file, path, name);
  const std::vector<hsize_t> extents = extents_of(dataset);
  const std::string where = fmt::format("{}: dataset {}", path, name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", where));
  if (H5Tget_class(type) != H5T_INTEGER || extents.size() != 1) {
    fail(ErrorKind::failure, "{} is {} with {} axes, expected int64 with 1", where, describe_type(type),
         extents.size());
  }
  pattern::Documents offsets(extents[0]);
  check_hdf5(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets.data()), "{}: reading failed",
             where);
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != sequence) {
    fail(ErrorKind::failure, "{} has {} offsets{}, expected 0 ... {}", where, offsets.size(),
         offsets.empty() ? "" : fmt::format(", {} ... {}", offsets.front(), offsets.back()), sequence);
  }
  const auto down = std::is_sorted_until(offsets.begin(), offsets.end());
  if (down != offsets.end()) {
    fail(ErrorKind::failure, "{}: offset {} after {} at [{}], expected ascending offsets", where, *down, *(down - 1),
         down - offsets.begin());
  }
  return offsets;
}

// Numbers as bytes, for the one message that tells all ranks what rank 0 saw.
std::string pack(const std::vector<Index>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Index));
}
std::vector<Index> unpack(const std::string& bytes) {
  std::vector<Index> numbers(bytes.size() / sizeof(Index));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Global row of row `local` of the intervals laid one after another.
Index global_row(const std::vector<Interval>& rows, Index local) {
  for (const Interval& interval : rows) {
    if (local < interval.size()) return interval.begin + local;
    local -= interval.size();
  }
  return -1;
}

/// Every rank learns of the NaN or infinity that comes first in the global tensor (B, S, heads, D), if there is one.
void check_finite(const std::string& where, const std::optional<NonFinite>& found, const std::vector<Interval>& rows,
                  const Shape& shape, const comm::Communicator& comm) {
  constexpr Index none = INT64_MAX;  // `shape` has the heads of this tensor
  Index place = none;
  std::string message;
  if (found) {
    Index local_rows = 0;
    for (const Interval& interval : rows) local_rows += interval.size();
    const Index d = found->index % shape.head_dim, h = found->index / shape.head_dim % shape.heads;
    const Index row = found->index / (shape.head_dim * shape.heads);  // over the local (B, rows)
    const Index b = row / local_rows, s = global_row(rows, row % local_rows);
    place = ((b * shape.sequence + s) * shape.heads + h) * shape.head_dim + d;
    message = fmt::format("{} holds {} at [{}, {}, {}, {}], expected finite numbers", where, found->value, b, s, h, d);
  }
  const Index first = -comm.max(-place);
  if (first == none) return;
  for (const std::string& text : comm.gather_all(place == first ? message : std::string())) {
    if (!text.empty()) throw comm::AgreedError(ErrorKind::failure, text);
  }
}

}  // namespace

TensorFile::TensorFile(const InputSettings& input, const comm::Communicator& comm)
    : path_(*input.file), names_{input.q, input.k, input.v} {
  const std::vector<Index> seen = unpack(from_root(comm, [&] {
    const FileId file = open_alone(path_, false);
    const auto [shape, type] = describe_tensors(file, input);
    std::vector<Index> numbers{shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_dim, Index(type)};
    const pattern::Documents documents = input.documents ? read_documents(file, path_, *input.documents, shape.sequence)
                                                         : pattern::Documents{0, shape.sequence};
    numbers.insert(numbers.end(), documents.begin(), documents.end());
    return pack(numbers);
  }));
  shape_ = {seen[0], seen[1], seen[2], seen[3], seen[4]};
  type_ = DType(seen[5]);
  documents_.assign(seen.begin() + 6, seen.end());
}

void TensorFile::read(const std::vector<RowsIn>& tensors, const std::vector<Interval>& rows,
                      const comm::Communicator& comm, Index piece_bytes) const {
  for (const RowsIn& tensor : tensors) {
    core::require(std::find(names_.begin(), names_.end(), tensor.dataset) != names_.end(),
                  [&] { return tensor.dataset + " is none of the input's tensors"; });
  }
  transfer_rows(path_, Direction::read, tensors, rows, comm, piece_bytes);
  for (const RowsIn& tensor : tensors) {
    Shape shape = shape_;
    if (tensor.dataset != names_[0]) shape.heads = shape.kv_heads;
    Index count = 0;
    for (const Interval& interval : rows) count += interval.size() * shape.batch * shape.heads * shape.head_dim;
    check_finite(fmt::format("{}: dataset {}", path_, tensor.dataset), find_non_finite(tensor.host, type_, count), rows,
                 shape, comm);
  }
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
  const TypeId type = text_type();
  char* text = nullptr;  // allocated by HDF5
  check_hdf5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text), "{}: dataset {} holds no text", path, name);
  const std::string copy = text == nullptr ? "" : text;
  H5free_memory(text);
  return copy;
}

}  // namespace annulus::io
