#include "read_hdf5.hpp"

#include <hdf5.h>

#include <algorithm>

#include "annulus/runfile/run_file.hpp"
#include "annulus/store/input_file.hpp"

namespace annulus::fuzz {
namespace {

constexpr Index most_bytes = Index(1) << 20;  // of a tensor that is read whole

/// Bytes of a dataset, 8 for each number; most_bytes + 1 if there are more.
Index bytes_of(const store::DatasetInfo& info) {
  Index bytes = 8;
  for (const Index extent : info.extents) {
    expect(extent > 0, "an empty dataset was accepted");
    bytes = extent > most_bytes ? most_bytes + 1 : std::min(most_bytes + 1, bytes * extent);
  }
  return bytes;
}

/// Whether `found` has the numbers that HDF5 itself returns; true, too, if HDF5 cannot read the dataset.
bool are_as_hdf5_has_them(const std::string& path, const std::string& name, const store::DatasetInfo& info,
                          const std::vector<char>& found) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT), type = H5Dget_type(dataset);
  const hid_t native = H5Tcopy(type);
  H5Tset_order(native, H5T_ORDER_LE);
  std::vector<char> expected(found.size());
  const bool is_read = H5Dread(dataset, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, expected.data()) >= 0;
  const auto bytes = std::size_t(bytes_of(info)) / 8 * H5Tget_size(type);
  const bool is_same = std::equal(expected.begin(), expected.begin() + std::ptrdiff_t(bytes), found.begin());
  H5Tclose(native);
  H5Tclose(type);
  H5Dclose(dataset);
  H5Fclose(file);
  return is_same || !is_read;
}

/// Reads one whole dataset, and compares it with HDF5's own numbers if the input leaves out no rows.
void read_whole(const store::InputFile& file, const std::string& name, const comm::Communicator& comm) {
  const store::DatasetInfo& info = file.inspected().at(name);
  if (bytes_of(info) > most_bytes) return;
  std::vector<char> numbers(most_bytes);
  const bool is_matrix = info.extents.size() < 3;
  const Index rows = is_matrix ? 0 : info.extents[sequence_axis(info.order)];
  const Index all = file.inspected().is_end_to_end ? info.extents[0] * rows : rows;
  const bool is_read = is_accepted([&] {
    if (is_matrix) {
      const Index columns = info.extents.size() == 2 ? info.extents[1] : 1;
      const core::Rectangle all_of_it{{0, info.extents[0]}, {0, columns}};
      store::read_parts(file.inspected(), {{name, all_of_it, all_of_it, numbers.data()}}, comm);
    } else {
      file.read({{name, numbers.data()}}, {{0, all}}, comm);
    }
  });
  if (!is_read || !file.inspected().left_out.empty()) return;
  expect(are_as_hdf5_has_them(file.inspected().path, name, info, numbers), "other numbers of " + name + " than HDF5's");
}

void check_contents(const store::InputFile& file, const comm::Communicator& comm) {
  const core::Shape& s = file.shape();
  expect(s.batch > 0 && s.sequence > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0, "an empty shape");
  expect(s.heads % s.kv_heads == 0, "heads that K/V heads do not divide");
  for (const auto& [name, info] : file.inspected().datasets) read_whole(file, name, comm);
}

/// Calls all functions that read text or a single dataset of results, checkpoints and sweeps.
void read_single(const std::string& path) {
  for (const char* name : {"q", "documents", "loss", "wq", "run/settings", "run"}) {
    is_accepted([&] { store::look_at_dataset(path, name); });
  }
  is_accepted([&] { store::read_text_attribute(path, "NAME"); });
  is_accepted([&] { store::read_text_attribute(path, "axes"); });
  is_accepted([&] { store::read_text_dataset(path, "q"); });
  is_accepted([&] {
    const std::string text = store::read_text_dataset(path, "/run/settings");
    runfile::parse_run_file(text, path + ":/run/settings", {});
  });
}

}  // namespace

void read_hdf5(const std::string& path, Draw& draw) {
  static const comm::Communicator comm(MPI_COMM_WORLD);
  runfile::Settings settings;
  runfile::InputSettings& input = settings.input;
  input.file = path;
  if (draw.once_in(2)) input.documents = "/documents";
  if (!input.documents && draw.once_in(2)) input.lengths = "/lengths";
  if (draw.once_in(2)) input.sink = "/sink";
  if (draw.once_in(2)) input.coordinates = "/coordinates";
  if (draw.once_in(2)) input.dlse = "/dlse";
  const core::AxisOrder orders[] = {core::AxisOrder::bshd, core::AxisOrder::bhsd};
  if (draw.once_in(4)) input.axes = orders[draw.below(2)];
  is_accepted([&] { check_contents(store::tensor_file(input, comm, draw.once_in(2)), comm); });
  settings.layer = runfile::LayerSettings{};
  settings.layer->heads = 2;
  settings.layer->kv_heads = 1;
  if (draw.once_in(2)) settings.layer->bq = "/bq";
  input.lengths.reset();
  is_accepted([&] { check_contents(store::layer_file(settings, {draw.once_in(2), false}, comm), comm); });
  read_single(path);
  expect(H5Fget_obj_count(hid_t(H5F_OBJ_ALL), H5F_OBJ_ALL) == 0, "a file stays open");
}

}  // namespace annulus::fuzz
