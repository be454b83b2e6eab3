#include "annulus/store/hdf5/dataset_storage.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "annulus/store/hdf5/attributes.hpp"

namespace annulus::store {
namespace {

namespace fs = std::filesystem;

/// What one of HDF5's functions for names writes: `get(buffer, bytes)` returns the length.
template <class Get>
std::string text_from(const std::string& where, Get&& get) {
  const auto length = check_hdf5(get(nullptr, std::size_t(0)), "{}", where);
  std::string text(std::size_t(length), '\0');
  check_hdf5(get(text.data(), text.size() + 1), "{}", where);
  return text;
}

std::string file_of(hid_t object) {
  return text_from("the name of an HDF5 file", [&](char* text, std::size_t bytes) {
    return comm::blocking("H5Fget_name", H5Fget_name, object, text, bytes);
  });
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || fs::equivalent(a, b, ignored);
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

/// The path at which HDF5 finds a file that a dataset of the file `holder` names; none if there is no such file. HDF5
/// looks for sources of virtual datasets first in the folder of `holder`, then, as for other files, under the name as
/// written. Prefixes from the environment (HDF5_VDS_PREFIX, HDF5_EXTFILE_PREFIX) are not known here.
std::optional<std::string> found_file(const std::string& named, const std::string& holder, bool beside_holder) {
  std::error_code ignored;
  const fs::path folder = fs::canonical(holder, ignored).parent_path();
  for (const fs::path& place : {beside_holder ? folder / named : fs::path(named), fs::path(named)}) {
    if (fs::is_regular_file(place, ignored)) return place.string();
  }
  return std::nullopt;
}

using Source = std::pair<std::string, std::string>;  ///< a file, and the name of a dataset in it

/// The sources of a virtual dataset, those of a pattern "part_%b.h5" one by one.
std::vector<Source> sources_of(hid_t creation, const std::string& holder, const std::string& where) {
  std::size_t count = 0;
  check_hdf5(H5Pget_virtual_count(creation, &count), "{}", where);
  std::set<Source> found;
  const auto add = [&](std::string file, std::string dataset, std::size_t block) {
    for (std::string* const text : {&file, &dataset}) {
      replace_all(*text, "%b", std::to_string(block));
      replace_all(*text, "%%", "%");
    }
    if (file == ".") return found.emplace(holder, dataset).second;  // the file itself
    const auto place = found_file(file, holder, true);
    return place && found.emplace(*place, dataset).second;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string file = text_from(
        where, [&](char* text, std::size_t bytes) { return H5Pget_virtual_filename(creation, i, text, bytes); });
    const std::string dataset = text_from(
        where, [&](char* text, std::size_t bytes) { return H5Pget_virtual_dsetname(creation, i, text, bytes); });
    add(file, dataset, 0);
    if (file.find("%b") == std::string::npos) continue;
    for (std::size_t block = 1; add(file, dataset, block);) ++block;
  }
  return {found.begin(), found.end()};
}

/// HDF5 calls this function at every external link on a path. The dataset needs `parent`, the file with the link.
herr_t note_parent(const char* parent, const char*, const char*, const char*, unsigned*, hid_t, void* files) {
  static_cast<std::vector<std::string>*>(files)->emplace_back(parent);
  return 0;
}

struct Search {
  const std::string& path;
  std::set<std::string>& others;
  std::set<Source> seen{};

  void note(const std::string& file) {
    if (!is_same(file, path)) others.insert(file);
  }

  void add(hid_t file, const std::string& file_path, const std::string& name) {
    if (!seen.emplace(file_path, name).second) return;
    const std::string where = file_path + ": dataset " + name;
    std::vector<std::string> parents;
    const PropertyId access(check_hdf5(H5Pcreate(H5P_DATASET_ACCESS), "{}", where));
    check_hdf5(H5Pset_elink_cb(access, note_parent, &parents), "{}", where);
    const DatasetId dataset(
        check_hdf5(comm::blocking("H5Dopen2", H5Dopen2, file, name.c_str(), hid_t(access)), "{}: cannot open", where));
    const std::string holder = file_of(dataset);
    note(holder);
    for (const std::string& parent : parents) note(parent);
    const PropertyId creation(
        check_hdf5(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, dataset), "{}", where));
    add_raw(creation, holder, where);
    if (H5Pget_layout(creation) != H5D_VIRTUAL) return;
    for (const auto& [source, source_name] : sources_of(creation, holder, where)) {
      note(source);
      const FileId open = open_alone(source, false);
      if (comm::blocking("H5Lexists", H5Lexists, open, source_name.c_str(), H5P_DEFAULT) > 0)
        add(open, source, source_name);
    }
  }

  void add_raw(hid_t creation, const std::string& holder, const std::string& where) {
    const int count = check_hdf5(H5Pget_external_count(creation), "{}", where);
    for (int i = 0; i < count; ++i) {
      std::string name(4096, '\0');
      check_hdf5(H5Pget_external(creation, unsigned(i), name.size() - 1, name.data(), nullptr, nullptr), "{}", where);
      name.resize(name.find('\0'));
      if (const auto place = found_file(name, holder, false)) note(*place);
    }
  }
};

/// "32015 (zstd)"; the file tells the name.
std::string name_of_filter(H5Z_filter_t id, const std::string& name) {
  return name.empty() ? fmt::format("{}", id) : fmt::format("{} ({})", id, name);
}

/// Folders in which HDF5 looks for plugins.
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
  const SpaceId stored(H5Dget_space(dataset)), memory(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> start(std::size_t(H5Sget_simple_extent_ndims(stored)), 0), count(start.size(), 1);
  if (H5Sselect_hyperslab(stored, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0) return false;
  double number = 0;
  return comm::blocking("H5Dread", H5Dread, dataset, H5T_NATIVE_DOUBLE, memory, stored, H5P_DEFAULT, &number) >= 0;
}

}  // namespace

bool is_in_another_file(hid_t dataset, const std::string& path) { return !is_same(file_of(dataset), path); }

void add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others) {
  Search{path, others}.add(file, path, name);
}

std::string missing_filters(hid_t dataset) {
  const PropertyId creation(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, dataset));
  const int count = creation < 0 ? 0 : H5Pget_nfilters(creation);
  std::vector<std::string> missing;
  for (int i = 0; i < count; ++i) {
    std::array<char, 128> name{};
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t id =
        H5Pget_filter2(creation, unsigned(i), &flags, &values, nullptr, name.size() - 1, name.data(), nullptr);
    if (id >= 0 && comm::blocking("H5Zfilter_avail", H5Zfilter_avail, id) <= 0) {
      missing.push_back(name_of_filter(id, name.data()));
    }
  }
  if (missing.empty()) return "";
  return fmt::format(
      "; it is stored with HDF5 filter {}, which is not here: name the folder of its plugin in HDF5_PLUGIN_PATH "
      "(searched now: {}), or store the dataset without: h5repack -f NONE IN OUT",
      fmt::join(missing, ", "), fmt::join(plugin_folders(), ", "));
}

void check_filters(hid_t dataset, const std::string& where) {
  const std::string missing = missing_filters(dataset);
  if (missing.empty() || can_read_first(dataset)) return;
  core::fail(core::ErrorKind::failure, "{} cannot be read{}", where, missing);
}

void refuse_packed(hid_t dataset, const std::string& where) {
  const std::pair<const char*, double> attributes[] = {{"scale_factor", 1}, {"add_offset", 0}};  // change nothing
  for (const auto& [attribute, same] : attributes) {
    const std::vector<double> values = numbers_of(dataset, attribute, where);
    if (std::count(values.begin(), values.end(), same) == std::ptrdiff_t(values.size())) continue;
    fail(core::ErrorKind::failure,
         "{} has the attribute {} ({}): its numbers are packed, and a run computes with them as they are stored; "
         "expected a dataset of unpacked numbers, without scale_factor and add_offset",
         where, attribute, fmt::join(values, ", "));
  }
}

namespace {

PropertyId creation_of(hid_t dataset, const std::string& where) {
  return PropertyId(check_hdf5(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, dataset), "{}", where));
}

/// In files that the dataset's own file names.
bool is_stored_elsewhere(hid_t creation) {
  return H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) > 0;
}

}  // namespace

void refuse_unwritten(hid_t dataset, const std::string& where) {
  const PropertyId creation = creation_of(dataset, where);
  if (is_stored_elsewhere(creation) || H5Pget_layout(creation) == H5D_COMPACT) return;
  if (comm::blocking("H5Dget_storage_size", H5Dget_storage_size, dataset) > 0) return;
  fail(core::ErrorKind::failure,
       "{} was never written: the file has no number of it, and HDF5 would return its fill value", where);
}

Index offset_of(hid_t dataset, const std::string& path, const std::string& where, NumberType type) {
  refuse_packed(dataset, where);
  refuse_unwritten(dataset, where);
  const PropertyId creation = creation_of(dataset, where);
  const TypeId stored(check_hdf5(H5Dget_type(dataset), "{}", where));
  const bool is_elsewhere = is_stored_elsewhere(creation) || is_in_another_file(dataset, path);
  if (H5Pget_layout(creation) != H5D_CONTIGUOUS || is_elsewhere || H5Tequal(stored, file_type(type)) <= 0) {
    return DatasetInfo::by_hdf5;
  }
  const haddr_t offset = comm::blocking("H5Dget_offset", H5Dget_offset, dataset);
  return offset == HADDR_UNDEF ? DatasetInfo::by_hdf5 : Index(offset);
}

MissingValues missing_values_of(hid_t dataset, const std::string& where) {
  MissingValues found;
  for (const char* attribute : {"_FillValue", "missing_value"}) {
    for (const double value : numbers_of(dataset, attribute, where)) found.push_back({attribute, value});
  }
  return found;
}

void check_as_inspected(hid_t dataset, const std::string& where, const DatasetInfo& info) {
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", where));
  const std::vector<Index> extents = extents_of(dataset);
  if (extents == info.extents && number_type_of(type) == info.type) return;
  core::fail(core::ErrorKind::failure, "{} is {} ({}), it was {} ({}) when the run looked at it first", where,
             describe_type(type), fmt::join(extents, ", "), name_of(info.type), fmt::join(info.extents, ", "));
}

}  // namespace annulus::store
