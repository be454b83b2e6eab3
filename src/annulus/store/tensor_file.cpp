#include "annulus/store/tensor_file.hpp"
#include "annulus/core/head_dim.hpp"

#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/axis_names.hpp"
#include "annulus/store/hdf5/dataset_checks.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

/// "(batch, kv_heads, sequence, head_dim)".
std::string axes_text(const char* heads, core::AxisOrder order, bool with_head_dim = true) {
  std::vector<std::string> axes = reordered<std::string>({"batch", "sequence", heads}, order);
  if (with_head_dim) axes.push_back("head_dim");
  return fmt::format("({})", fmt::join(axes, ", "));
}

/// q, and which order of axes it and the tensors beside it have.
struct Query {
  FoundDataset found;
  core::AxisOrder order = core::AxisOrder::bshd;

  const std::vector<Index>& extents() const { return found.extents; }
  Index rows() const { return extents()[sequence_axis(order)]; }
  Index heads() const { return extents()[heads_axis(order)]; }
};

/// True where k or v (B, S, Hkv, D) goes with q (B, Sq, H, D) when both have this order: the heads divide q's. The rows
/// are q's, too, or with `any_rows` any.
bool fits(const FoundDataset& tensor, const FoundDataset& q, core::AxisOrder order, bool any_rows) {
  for (const std::size_t axis : {std::size_t(0), std::size_t(3)}) {
    if (tensor.extents[axis] != q.extents[axis]) return false;
  }
  const std::size_t rows = sequence_axis(order), heads = heads_axis(order);
  return (any_rows || tensor.extents[rows] == q.extents[rows]) && q.extents[heads] % tensor.extents[heads] == 0;
}

/// Refuses tensors in PyTorch's order that neither the run file nor the file announces, as far as they can be told: of
/// a q with the rows of k, and else of one with other rows.
void check_unannounced(const Query& q, const FoundDataset& k, const FoundDataset& v) {
  constexpr const char* hint =
      "axes are (batch, sequence, heads, head_dim); PyTorch's (B, H, S, D) needs transpose(1, 2), or input.axes: bhsd";
  for (const FoundDataset* tensor : {&k, &v}) {
    const bool same_rows = tensor->extents[1] == q.rows();
    for (const bool any_rows : {false, true}) {
      if (fits(*tensor, q.found, core::AxisOrder::bshd, any_rows) || (any_rows && same_rows)) break;
      if (!fits(*tensor, q.found, core::AxisOrder::bhsd, any_rows)) continue;
      fail(ErrorKind::failure, "{} has shape {}, which fits q {} with axes (batch, heads, sequence, head_dim) only: {}",
           tensor->where, tensor->shape_text(), q.found.shape_text(), hint);
    }
  }
  const auto check_heads = [&](const FoundDataset& tensor) {
    const Index rows = tensor.extents[1], heads = tensor.extents[2];
    if (heads <= rows) return;
    fail(ErrorKind::failure, "{} has shape {}: {} rows, {} heads? {} (or input.axes: bshd where it is meant so)",
         tensor.where, tensor.shape_text(), rows, heads, hint);
  };
  if (q.rows() == k.extents[1]) check_heads(q.found);
  check_heads(k);  // few queries of many heads are fine
}

/// The order that the run file or the datasets' own names of their axes say; they must not contradict each other.
std::optional<core::AxisOrder> announced_order(hid_t file, const runfile::InputSettings& input,
                                               const std::vector<std::string>& names) {
  std::optional<core::AxisOrder> order = input.axes;
  std::string by = "input.axes";
  for (const std::string& name : names) {
    const std::string where = fmt::format("{}: dataset {}", *input.file, name);
    const std::vector<std::string> axes = axis_names(open_dataset(file, *input.file, name));
    const std::optional<core::AxisOrder> meant = order_meant(axes, where);
    if (!meant) continue;
    if (order && *order != *meant) {
      fail(ErrorKind::failure, "{} names its axes ({}), which is {}; {} says {}", where, fmt::join(axes, ", "),
           name_of(*meant), by, name_of(*order));
    }
    if (!order) by = "dataset " + name;
    order = meant;
  }
  return order;
}

/// k and v against q: their extents are q's but for the rows, which are k's, and the heads, which divide q's.
void check_against_q(const FoundDataset& tensor, const Query& q, const FoundDataset& k) {
  check_type(tensor, q.found.type, q.found.where);
  const std::size_t heads = heads_axis(q.order), rows = sequence_axis(q.order);
  for (const std::size_t axis : {std::size_t(0), rows, std::size_t(3)}) {
    if (tensor.extents[axis] == (axis == rows ? k : q.found).extents[axis]) continue;
    std::vector<std::string> expected;
    for (const Index extent : q.extents()) expected.push_back(std::to_string(extent));
    expected[heads] = "kv_heads";
    expected[rows] = std::to_string(k.extents[rows]);
    fail(ErrorKind::failure, "{} has shape {}, expected ({}) to fit q {}", tensor.where, tensor.shape_text(),
         fmt::join(expected, ", "), q.found.shape_text());
  }
  if (q.heads() % tensor.extents[heads] != 0) {
    fail(ErrorKind::failure, "{} has {} heads, expected a divisor of the {} heads of q", tensor.where,
         tensor.extents[heads], q.heads());
  }
}

/// dout as q in q's type, dlse (B, S, H), in q's order, in lse's type.
void check_gradients(const FoundDataset& dout, const std::optional<FoundDataset>& dlse, const Query& q) {
  check_type(dout, q.found.type, q.found.where);
  check_extents(dout, q.extents(), "q " + q.found.shape_text());
  if (!dlse) return;
  check_type(*dlse, core::lse_type(q.found.type), fmt::format("the lse of {} tensors", core::name_of(q.found.type)));
  check_extents(*dlse, {q.extents()[0], q.extents()[1], q.extents()[2]}, "q " + q.found.shape_text());
}

/// What q, k, v (with `with_gradients` dout and dlse) are together. Throws Error(failure) naming file, dataset, what
/// was found and what was expected.
FileContents describe_tensors(hid_t file, const runfile::InputSettings& input, bool with_gradients) {
  const core::AxisOrder asked = input.axes.value_or(core::AxisOrder::bshd);  // until the datasets have been seen
  const std::string kv_axes = axes_text("kv_heads", asked);
  Query q{look_at(file, *input.file, input.q, axes_text("heads", asked),
                  "input.q names it; for a layer's file a section layer is missing")};
  const FoundDataset k = look_at(file, *input.file, input.k, kv_axes, "input.k names it");
  const FoundDataset v = look_at(file, *input.file, input.v, kv_axes, "input.v names it");
  if (q.extents()[3] > core::most_head_dim) {
    fail(ErrorKind::failure, "{} has head_dim {}, expected 1 to {}", q.found.where, q.extents()[3],
         core::most_head_dim);
  }
  std::vector<std::string> names{input.q, input.k, input.v};
  std::optional<FoundDataset> dout, dlse;
  if (with_gradients) {
    dout = look_at(file, *input.file, input.dout, axes_text("heads", asked),
                   "input.dout names it, compute.backward: true reads it; `annulus generate --dout` makes one");
    names.push_back(input.dout);
  }
  if (with_gradients && input.dlse) {
    dlse = look_at(file, *input.file, *input.dlse, axes_text("heads", asked, false),
                   "input.dlse names it; `annulus generate --dlse` makes one");
    names.push_back(*input.dlse);
  }
  if (const auto announced = announced_order(file, input, names)) {
    q.order = *announced;
  } else {
    check_unannounced(q, k, v);
  }
  check_against_q(k, q, k);
  check_against_q(v, q, k);
  const std::size_t heads = heads_axis(q.order);
  if (v.extents[heads] != k.extents[heads]) {
    fail(ErrorKind::failure, "{} has {} heads, expected {} as k", v.where, v.extents[heads], k.extents[heads]);
  }
  if (dout) check_gradients(*dout, dlse, q);
  const Index rows = k.extents[sequence_axis(q.order)];
  if (input.lengths && rows != q.rows()) {
    fail(ErrorKind::failure,
         "{} has {} rows, {} has {}: with input.lengths q and k have the same ones, expected input.lengths: none or {} "
         "rows",
         q.found.where, q.rows(), k.where, rows, rows);
  }
  FileContents contents{
      {q.extents()[0], rows, q.heads(), k.extents[heads], q.extents()[3]}, q.found.type, q.order, 0, q.rows(), {}};
  if (input.sink) {
    const std::string to_fit = fmt::format("q {} of {} heads", q.found.shape_text(), q.heads());
    contents.sink = read_sink(file, *input.file, *input.sink, q.heads(), to_fit);
  }
  if (input.coordinates) {
    const std::string to_fit = fmt::format("k {} of {} rows", k.shape_text(), rows);
    contents.coordinates = read_coordinates(file, *input.file, *input.coordinates, rows, to_fit);
  }
  return contents;
}

}  // namespace

TensorFile::TensorFile(const runfile::InputSettings& input, const comm::Communicator& comm, bool gradients) {
  file_ = {*input.file, agreed_state(*input.file, comm), {}};
  contents_ = agreed_contents(file_, input, comm, [&](hid_t file) { return describe_tensors(file, input, gradients); });
  const auto& [batch, sequence, heads, kv_heads, head_dim] = shape();
  const auto add = [&](const std::string& name, const std::vector<Index>& extents, core::DType type) {
    file_.datasets[name] = {reordered(extents, order()), type, order()};
  };
  add(input.q, {batch, query_rows(), heads, head_dim}, type());
  for (const std::string& name : {input.k, input.v}) add(name, {batch, sequence, kv_heads, head_dim}, type());
  if (gradients) add(input.dout, {batch, query_rows(), heads, head_dim}, type());
  if (gradients && input.dlse) add(*input.dlse, {batch, query_rows(), heads}, core::lse_type(type()));
  const pattern::QueryOffset& offset = input.query_offset;
  const bool is_last = offset.kind == pattern::QueryOffset::Kind::last;
  for (const std::string& name : {input.q, input.dout, input.dlse.value_or("")}) {
    if (const auto found = file_.datasets.find(name); found != file_.datasets.end())
      found->second.first_row = std::max<Index>(0, is_last ? sequence - query_rows() : offset.row);
  }
  std::vector<std::string> small;
  for (const auto& name : {input.sink, input.documents, input.lengths, input.coordinates}) {
    if (name) small.push_back(*name);
  }
  look_at_storage(file_, small, comm);
}

DatasetInfo look_at_dataset(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{}: dataset {} has no type", path, name));
  const auto known = number_type_of(type);
  if (!known) {
    fail(ErrorKind::failure, "{}: dataset {} is {}, expected float64, float32, float16, bfloat16 or int64", path, name,
         describe_type(type));
  }
  return {extents_of(dataset, fmt::format("{}: dataset {}", path, name)), *known};
}

std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const std::vector<std::string> texts = texts_of(file, name);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

std::string read_text_dataset(const std::string& path, const std::string& name) {
  constexpr std::size_t most_text = std::size_t(1)
                                    << 26;  // bytes of one of fixed length, which need not be in the file
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const SpaceId space(check_hdf5(H5Dget_space(dataset), "{}: dataset {}", path, name));
  if (H5Sget_simple_extent_npoints(space) != 1) {  // the read below has room for one
    fail(ErrorKind::failure, "{}: dataset {} holds no text: expected one string", path, name);
  }
  const TypeId stored(check_hdf5(H5Dget_type(dataset), "{}: dataset {}", path, name));
  const bool is_text = H5Tget_class(stored) == H5T_STRING;
  if (!is_text || (H5Tis_variable_str(stored) <= 0 && H5Tget_size(stored) > most_text)) {
    fail(ErrorKind::failure, "{}: dataset {} is {} of {} bytes, expected text of at most {}", path, name,
         describe_type(stored), H5Tget_size(stored), most_text);
  }
  const TypeId type = text_type();
  char* text = nullptr;  // allocated by HDF5
  check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text),
             "{}: dataset {} holds no text", path, name);
  const std::string copy = text == nullptr ? "" : text;
  H5free_memory(text);
  return copy;
}

}  // namespace annulus::store
