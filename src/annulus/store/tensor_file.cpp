#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/core/print.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/dataset_checks.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

/// The meaning of an axis, according to its name.
enum class Meaning { unknown, batch, rows, heads, head_dim };

Meaning meaning_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  // "n" is in neither list, because some files use it for the batch, some for the heads, and some for the rows.
  constexpr std::array<std::string_view, 10> rows{"s",    "t",      "l",        "time",   "row",
                                                  "rows", "tokens", "position", "length", "query"};
  constexpr std::array<std::string_view, 10> heads{"h",         "hkv",     "nh",       "head",    "heads",
                                                   "num_heads", "n_heads", "kv_heads", "kv_head", "num_kv_heads"};
  const auto is_one_of = [&](const auto& words) { return std::find(words.begin(), words.end(), name) != words.end(); };
  if (name.starts_with("seq") || is_one_of(rows)) return Meaning::rows;
  if (is_one_of(heads)) return Meaning::heads;
  if (name == "batch") return Meaning::batch;
  if (name == "d" || name == "dim" || name == "head_dim") return Meaning::head_dim;
  return Meaning::unknown;
}

/// Returns the names of a dataset's axes, one for each; empty if the file does not name them. If the file names them in
/// several ways, the first of these counts: the attribute `axes` (one text of several words, as this program writes),
/// the attribute DIMENSION_LABELS (h5py: dataset.dims[0].label = "batch"), the names of dimension scales (netCDF,
/// xarray).
std::vector<std::string> axis_names(hid_t dataset) {
  const std::size_t axes = extents_of(dataset, "a dataset with names of axes").size();
  const std::vector<std::string> words = words_of(fmt::format("{}", fmt::join(texts_of(dataset, "axes"), " ")));
  if (words.size() == axes) return words;
  for (const auto& names : {texts_of(dataset, "DIMENSION_LABELS"), scale_names_of(dataset)}) {
    const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) { return !name.empty(); });
    if (names.size() == axes && any) return names;
  }
  return {};
}

/// The order of axes that these names mean. It follows from the axis of rows ("sequence", "seq_len", "s", "time" ...)
/// or of heads ("head", "num_heads", "h" ...). Empty if neither of these axes is named. Throws Error(failure), which
/// begins with `where`, if the order is neither bshd nor bhsd, also if only the batch or the head size is misplaced.
std::optional<core::AxisOrder> order_meant(const std::vector<std::string>& names, const std::string& where) {
  std::optional<core::AxisOrder> meant;
  for (std::size_t axis = 0; axis < names.size(); ++axis) {
    const Meaning meaning = meaning_of(names[axis]);
    if (meaning == Meaning::unknown) continue;
    if (meaning == Meaning::batch && axis == 0) continue;
    if (meaning == Meaning::head_dim && axis + 1 == names.size()) continue;
    const bool is_inner = (meaning == Meaning::rows || meaning == Meaning::heads) && (axis == 1 || axis == 2);
    const core::AxisOrder order =
        (axis == 1) == (meaning == Meaning::rows) ? core::AxisOrder::bshd : core::AxisOrder::bhsd;
    if (!is_inner || (meant && meant != order)) {
      fail(ErrorKind::failure,
           "{} names its axes ({}), expected (batch, sequence, heads, head_dim) or (batch, heads, sequence, head_dim)",
           where, fmt::join(names, ", "));
    }
    meant = order;
  }
  return meant;
}

/// The expected axes as text: "(batch, kv_heads, sequence, head_dim)".
std::string axes_text(const char* heads, core::AxisOrder order, bool with_head_dim = true) {
  std::vector<std::string> axes = reordered<std::string>({"batch", "sequence", heads}, order);
  if (with_head_dim) axes.push_back("head_dim");
  return fmt::format("({})", fmt::join(axes, ", "));
}

/// q, and the order of its axes, which is also the order of the other tensors' axes.
struct Query {
  FoundDataset found;
  core::AxisOrder order = core::AxisOrder::bshd;

  const std::vector<Index>& extents() const { return found.extents; }
  Index rows() const { return extents()[sequence_axis(order)]; }
  Index heads() const { return extents()[heads_axis(order)]; }
};

/// True if `tensor`, k or v (B, S, Hkv, D or Dv), fits q (B, Sq, H, D) when the axes of both tensors are in the order
/// `order`: B is the same, for k also D; Hkv divides H; and S equals Sq (with `any_rows`, S may be any number).
bool fits(const FoundDataset& tensor, bool is_k, const FoundDataset& q, core::AxisOrder order, bool any_rows) {
  if (tensor.extents[0] != q.extents[0] || (is_k && tensor.extents[3] != q.extents[3])) return false;
  const std::size_t rows = sequence_axis(order), heads = heads_axis(order);
  return (any_rows || tensor.extents[rows] == q.extents[rows]) && q.extents[heads] % tensor.extents[heads] == 0;
}

/// Call it if neither the run file nor the input file names the order of axes. Refuses tensors whose shapes suggest
/// PyTorch's order (B, H, S, D): k or v fits q only in that order; or k has more heads than rows; or q has more heads
/// than rows, and as many rows as k. `any_queries`: the run file says (input.query_offset) that q may have more rows
/// than k.
void check_unannounced(const Query& q, const FoundDataset& k, const FoundDataset& v, bool any_queries) {
  constexpr const char* hint =
      "axes are (batch, sequence, heads, head_dim); PyTorch's (B, H, S, D) needs transpose(1, 2), or input.axes: bhsd "
      "(or input.axes: bshd if this is what you mean)";
  for (const FoundDataset* tensor : {&k, &v}) {
    const bool same_rows = tensor->extents[1] == q.rows();
    const bool same_heads = k.extents[1] == v.extents[1];  // if the order is bhsd
    for (const bool any_rows : {any_queries, true}) {
      if (fits(*tensor, tensor == &k, q.found, core::AxisOrder::bshd, any_rows) || (any_rows && same_rows)) break;
      if (!same_heads || !fits(*tensor, tensor == &k, q.found, core::AxisOrder::bhsd, any_rows)) continue;
      fail(ErrorKind::failure, "{} has shape {}, which fits q {} with axes (batch, heads, sequence, head_dim) only: {}",
           tensor->where, tensor->shape_text(), q.found.shape_text(), hint);
    }
  }
  const auto check_heads = [&](const FoundDataset& tensor) {
    const Index rows = tensor.extents[1], heads = tensor.extents[2];
    if (heads <= rows) return;
    fail(ErrorKind::failure, "{} has shape {}: {} rows, {} heads? {}", tensor.where, tensor.shape_text(), rows, heads,
         hint);
  };
  if (q.rows() == k.extents[1]) check_heads(q.found);
  check_heads(k);  // does not check a q with more or fewer rows than k, because it may have more heads than rows
}

/// Returns the order of axes that the run file states, or that the names of axes in the input file mean. Throws
/// Error(failure) if the two contradict each other. Empty if neither gives an order.
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

/// Compares k or v with q. All extents must be equal, with three exceptions: k may have another number of rows than q
/// (v must then have as many rows as k); the numbers of heads of k and v need only divide that of q; and v may have
/// another head size.
void check_against_q(const FoundDataset& tensor, const Query& q, const FoundDataset& k) {
  const bool is_k = &tensor == &k;
  check_type(tensor, q.found.type, q.found.where);
  const std::size_t heads = heads_axis(q.order), rows = sequence_axis(q.order);
  for (const std::size_t axis : {std::size_t(0), rows, std::size_t(3)}) {
    if (axis == 3 && !is_k) continue;
    if (tensor.extents[axis] == (axis == rows ? k : q.found).extents[axis]) continue;
    std::vector<std::string> expected;
    for (const Index extent : q.extents()) expected.push_back(std::to_string(extent));
    expected[heads] = "kv_heads";
    expected[rows] = std::to_string(k.extents[rows]);
    if (!is_k) expected[3] = std::to_string(tensor.extents[3]);
    fail(ErrorKind::failure, "{} has shape {}, expected ({}) to fit q {}", tensor.where, tensor.shape_text(),
         fmt::join(expected, ", "), q.found.shape_text());
  }
  if (q.heads() % tensor.extents[heads] != 0) {
    fail(ErrorKind::failure, "{} has {}, expected a divisor of the {} of q", tensor.where,
         core::how_many(tensor.extents[heads], "head"), core::how_many(q.heads(), "head"));
  }
}

/// Checks that dout has q's type and extents, but v's head size, and that dlse (B, Sq, H) has q's order of axes and
/// lse's type.
void check_gradients(const FoundDataset& dout, const std::optional<FoundDataset>& dlse, const Query& q,
                     const FoundDataset& v) {
  check_type(dout, q.found.type, q.found.where);
  const bool like_q = v.extents[3] == q.extents()[3];
  check_extents(dout, {q.extents()[0], q.extents()[1], q.extents()[2], v.extents[3]},
                "q " + q.found.shape_text() + (like_q ? "" : " and v " + v.shape_text()));
  if (!dlse) return;
  check_type(*dlse, core::lse_type(q.found.type), fmt::format("the lse of {} tensors", core::name_of(q.found.type)));
  check_extents(*dlse, {q.extents()[0], q.extents()[1], q.extents()[2]}, "q " + q.found.shape_text());
}

/// Describes q, k, v (with `with_gradients` also dout and dlse) together. Throws Error(failure) with file, dataset,
/// what was found and what was expected.
FileContents describe_tensors(hid_t file, const runfile::InputSettings& input, bool with_gradients) {
  const core::AxisOrder asked = input.axes.value_or(core::AxisOrder::bshd);  // for messages
  const std::string kv_axes = axes_text("kv_heads", asked);
  Query q{look_at(file, *input.file, input.q, axes_text("heads", asked),
                  "input.q names it; for a layer's file a section layer is missing")};
  const FoundDataset k = look_at(file, *input.file, input.k, kv_axes, "input.k names it");
  const FoundDataset v = look_at(file, *input.file, input.v, kv_axes, "input.v names it");
  for (const FoundDataset* const tensor : std::initializer_list<const FoundDataset*>{&q.found, &v}) {
    if (tensor->extents[3] <= core::most_head_dim) continue;
    fail(ErrorKind::failure, "{} has head_dim {}, expected 1 to {}", tensor->where, tensor->extents[3],
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
    check_unannounced(q, k, v, input.query_offset.kind != pattern::QueryOffset::Kind::last);
  }
  check_against_q(k, q, k);
  check_against_q(v, q, k);
  const std::size_t heads = heads_axis(q.order);
  if (v.extents[heads] != k.extents[heads]) {
    fail(ErrorKind::failure, "{} has {}, expected {} as k", v.where, core::how_many(v.extents[heads], "head"),
         k.extents[heads]);
  }
  if (dout) check_gradients(*dout, dlse, q, v);
  const Index rows = k.extents[sequence_axis(q.order)];
  if (input.lengths && !input.has_lengths_of_keys() && rows != q.rows()) {
    fail(ErrorKind::failure,
         "{} has {} rows, {} has {}: with input.lengths q and k must have the same rows, expected "
         "input.lengths: none or {} rows, or input.query_offset: none",
         q.found.where, q.rows(), k.where, rows, rows);
  }
  FileContents contents{
      {q.extents()[0], rows, q.heads(), k.extents[heads], q.extents()[3]}, q.found.type, q.order, 0, q.rows(), {}};
  contents.shape.set_value_dim(v.extents[3]);
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

InputFile tensor_file(const runfile::InputSettings& input, const comm::Communicator& comm, bool gradients) {
  InspectedFile file{*input.file, agreed_state(*input.file, comm), {}};
  FileContents found =
      agreed_contents(file, input, comm, [&](hid_t open) { return describe_tensors(open, input, gradients); });
  const core::Shape& s = found.shape;
  const Index queries = found.query_rows;
  const auto add = [&](const std::string& name, const std::vector<Index>& extents, core::DType type) {
    file.datasets[name] = {reordered(extents, found.order), type, found.order};
  };
  add(input.q, {s.batch, queries, s.heads, s.head_dim}, found.type);
  add(input.k, {s.batch, s.sequence, s.kv_heads, s.head_dim}, found.type);
  add(input.v, {s.batch, s.sequence, s.kv_heads, s.dim_of_values()}, found.type);
  if (gradients) add(input.dout, {s.batch, queries, s.heads, s.dim_of_values()}, found.type);
  if (gradients && input.dlse) add(*input.dlse, {s.batch, queries, s.heads}, core::lse_type(found.type));
  const pattern::QueryOffset& offset = input.query_offset;
  const bool is_last = offset.kind == pattern::QueryOffset::Kind::last;
  for (const std::string& name : {input.q, input.dout, input.dlse.value_or("")}) {
    const auto dataset = file.datasets.find(name);
    if (dataset == file.datasets.end()) continue;
    dataset->second.first_row = std::max<Index>(0, is_last ? s.sequence - queries : offset.row);
    dataset->second.has_all_rows = input.has_lengths_of_keys();
  }
  look_at_storage(file, input, comm);
  return {std::move(file), std::move(found)};
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

std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name,
                                               const std::string& group) {
  const FileId file = open_alone(path, false);
  const GroupId there(comm::blocking("H5Gopen2", H5Gopen2, file, group.c_str(), H5P_DEFAULT));
  if (there < 0) return std::nullopt;
  const std::vector<std::string> texts = texts_of(there, name);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

std::string read_text_dataset(const std::string& path, const std::string& name) {
  constexpr std::size_t most_text = 64 << 20;  // bytes; a damaged file can claim more than it contains
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const SpaceId space(check_hdf5(comm::blocking("H5Dget_space", H5Dget_space, dataset), "{}: dataset {}", path, name));
  if (H5Sget_simple_extent_npoints(space) != 1) {  // the read below has memory for one text
    fail(ErrorKind::failure, "{}: dataset {} holds no text: expected one string", path, name);
  }
  const TypeId stored(check_hdf5(H5Dget_type(dataset), "{}: dataset {}", path, name));
  const bool is_text = H5Tget_class(stored) == H5T_STRING;
  if (!is_text || (H5Tis_variable_str(stored) <= 0 && H5Tget_size(stored) > most_text)) {
    fail(ErrorKind::failure, "{}: dataset {} is {} of {} bytes, expected text of at most {}", path, name,
         describe_type(stored), H5Tget_size(stored), most_text);
  }
  if (H5Tis_variable_str(stored) <= 0) {  // HDF5 does not convert text of fixed length to text of variable length
    std::string fixed(H5Tget_size(stored), '\0');
    check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, fixed.data()),
               "{}: dataset {} holds no text", path, name);
    fixed.resize(std::min(fixed.size(), fixed.find('\0')));
    return fixed;
  }
  const TypeId type = text_type();
  char* text = nullptr;  // HDF5 allocates it
  check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text),
             "{}: dataset {} holds no text", path, name);
  const std::string copy = text == nullptr ? "" : text;
  H5free_memory(text);
  return copy;
}

void InputFile::read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
                     const comm::Communicator& comm) const {
  const comm::Scope scope("reading " + file_.path);
  comm::agree(comm, [&] {
    for (const RowsIn& tensor : tensors) read_rows(file_, tensor, rows, Wanted::any_numbers);
  });
  for (const RowsIn& tensor : tensors) {
    const DatasetInfo& info = file_.at(tensor.dataset);
    Index count = 0;
    for (const core::Interval& interval : rows) count += interval.size();
    check_finite(fmt::format("{}: dataset {}", file_.path, tensor.dataset),
                 find_non_finite(tensor.host, *info.type.dtype(), file_.numbers_in(info, count),
                                 file_.missing_after_reading(info)),
                 rows, info, comm);
  }
}

}  // namespace annulus::store
