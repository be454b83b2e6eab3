#include "annulus/store/hdf5/dataset_storage.hpp"

#include <array>

namespace annulus::store {
namespace {

/// The filter's number and its name in the file: "32015 (zstd)".
std::string name_of_filter(H5Z_filter_t id, const std::string& name) {
  return name.empty() ? fmt::format("{}", id) : fmt::format("{} ({})", id, name);
}

/// The numbers and names of a dataset's filters.
std::vector<std::pair<H5Z_filter_t, std::string>> filters_of(hid_t dataset) {
  const PropertyId creation(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, dataset));
  const int count = creation < 0 ? 0 : H5Pget_nfilters(creation);
  std::vector<std::pair<H5Z_filter_t, std::string>> filters;
  for (int i = 0; i < count; ++i) {
    std::array<char, 128> name{};
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t id =
        H5Pget_filter2(creation, unsigned(i), &flags, &values, nullptr, name.size() - 1, name.data(), nullptr);
    if (id >= 0) filters.emplace_back(id, name.data());
  }
  return filters;
}

/// The folders in which HDF5 looks for plugins.
std::vector<std::string> plugin_folders() {
  unsigned count = 0;
  if (H5PLsize(&count) < 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < count; ++i) {
    std::array<char, 4096> text{};
    if (H5PLget(i, text.data(), text.size()) > 0) folders.emplace_back(text.data());
  }
  return folders;
}

bool can_read_first(hid_t dataset) {
  const SpaceId stored(comm::blocking("H5Dget_space", H5Dget_space, dataset)), memory(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> start(std::size_t(H5Sget_simple_extent_ndims(stored)), 0), count(start.size(), 1);
  if (H5Sselect_hyperslab(stored, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0) return false;
  double number = 0;
  return comm::blocking("H5Dread", H5Dread, dataset, H5T_NATIVE_DOUBLE, memory, stored, H5P_DEFAULT, &number) >= 0;
}

}  // namespace

std::set<std::string> plugins_of(hid_t dataset) {
  std::set<std::string> plugins;
  for (const auto& [id, name] : filters_of(dataset)) {
    if (id >= H5Z_FILTER_RESERVED) plugins.insert(name_of_filter(id, name));
  }
  return plugins;
}

std::string missing_filters(hid_t dataset) {
  std::vector<std::string> missing;
  for (const auto& [id, name] : filters_of(dataset)) {
    if (comm::blocking("H5Zfilter_avail", H5Zfilter_avail, id) <= 0) missing.push_back(name_of_filter(id, name));
  }
  if (missing.empty()) return "";
  return fmt::format(
      "; it is stored with HDF5 filter {}, which was not found: name the folder of its plugin in HDF5_PLUGIN_PATH "
      "(searched now: {}), or store the dataset without filters: h5repack -f NONE IN OUT",
      fmt::join(missing, ", "), fmt::join(plugin_folders(), ", "));
}

void check_filters(hid_t dataset, const std::string& where) {
  const std::string missing = missing_filters(dataset);
  if (missing.empty() || can_read_first(dataset)) return;
  core::fail(core::ErrorKind::failure, "{} cannot be read{}", where, missing);
}

}  // namespace annulus::store
