#include "annulus/store/hdf5/dataset_storage.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {
namespace {

namespace fs = std::filesystem;

/// Calls an HDF5 function that writes a name: `get(buffer, bytes)` returns the name's length.
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

/// The name of a block's source. HDF5 replaces %b by the block's number, and %% by %: part_%b.h5 is part_3.h5 for block
/// 3, and 100%%b is always 100%b.
std::string name_of_block(const std::string& pattern, std::size_t block) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool is_special = pattern[i] == '%' && i + 1 < pattern.size();
    if (is_special && pattern[i + 1] == 'b')
      name += std::to_string(block);
    else
      name += pattern[i];
    if (is_special && (pattern[i + 1] == 'b' || pattern[i + 1] == '%')) ++i;
  }
  return name;
}

bool has_blocks(const std::string& pattern) { return name_of_block(pattern, 0) != name_of_block(pattern, 1); }

bool has_link(hid_t file, const std::string& name) {
  return comm::blocking("H5Lexists", H5Lexists, file, name.c_str(), hid_t(link_access())) > 0;
}

/// The file `holder` has a virtual dataset with a source in the file `named`. Returns the paths at which HDF5 looks for
/// `named`, in HDF5's order: below `prefix`, beside `holder`, in the working directory and, if `holder` is a link,
/// beside its target. If `named` is absolute, HDF5 first tries `named` itself, then its last part in these folders.
std::vector<fs::path> places_of_source(const fs::path& named, const std::string& holder, const std::string& prefix) {
  std::error_code ignored;
  std::vector<fs::path> folders, places;
  if (!prefix.empty()) folders.emplace_back(prefix);
  for (const fs::path& path : {fs::path(holder), fs::path(), fs::canonical(holder, ignored)})
    folders.push_back(path.parent_path());
  if (named.is_absolute()) places.push_back(named);
  for (const fs::path& folder : folders) places.push_back(folder / (named.is_absolute() ? named.filename() : named));
  return places;
}

/// The first of these paths that is a regular file; empty if there is none. A dataset of `holder` needs this file.
/// Throws Error(failure) if a path before this file is a FIFO or a device.
std::optional<std::string> found_file(const std::vector<fs::path>& places, const std::string& holder) {
  std::error_code ignored;
  for (const fs::path& place : places) {
    const fs::file_status found = fs::status(place, ignored);
    if (fs::is_regular_file(found)) return place.string();
    if (!fs::exists(found) || fs::is_directory(found)) continue;
    core::fail(core::ErrorKind::failure,  // HDF5 would wait for a FIFO for ever, or read a device without end
               "{}: names {} as a file with numbers of its datasets, which is no regular file", holder, place.string());
  }
  return std::nullopt;
}

/// The prefix that HDF5 has taken for a dataset from HDF5_VDS_PREFIX or HDF5_EXTFILE_PREFIX, with ${ORIGIN} expanded.
/// `get` is the function of HDF5 that reads it.
template <class Get>
std::string prefix_of(hid_t dataset, Get&& get, const std::string& where) {
  const PropertyId access(check_hdf5(comm::blocking("H5Dget_access_plist", H5Dget_access_plist, dataset), "{}", where));
  return text_from(where, [&](char* text, std::size_t bytes) { return get(access, text, bytes); });
}

using Source = std::pair<std::string, std::string>;  ///< a file, and the name of a dataset in it

/// The sources of a virtual dataset. A pattern of files or of datasets gives one source for each block. The map says
/// for each source whether its dataset may be missing. The sources of blocks after block 0 may be missing, because HDF5
/// ends the virtual dataset before the first block that it does not find.
std::map<Source, bool> sources_of(hid_t dataset, hid_t creation, const std::string& holder, const std::string& where) {
  const std::string prefix = prefix_of(dataset, H5Pget_virtual_prefix, where);
  if (prefix.find(':') != std::string::npos) {  // HDF5 looks below each part, but expands no ${ORIGIN} in a part
    core::fail(core::ErrorKind::failure,
               "{} is virtual, and HDF5_VDS_PREFIX is {}, expected one folder without a colon", where, prefix);
  }
  std::size_t count = 0;
  check_hdf5(H5Pget_virtual_count(creation, &count), "{}", where);
  std::map<Source, bool> found;
  Source before;
  const auto add = [&](const std::string& files, const std::string& datasets, std::size_t block) {
    const std::string file = name_of_block(files, block), dataset = name_of_block(datasets, block);
    const auto place = file == "." ? std::optional(holder)  // HDF5's name for the file itself
                                   : found_file(places_of_source(file, holder, prefix), holder);
    if (!place && block == 0) {
      core::fail(core::ErrorKind::failure,
                 "{} is made of dataset {} of {}, which does not exist: HDF5 would read its fill value instead", where,
                 dataset, file);
    }
    if (!place || (block > 0 && has_blocks(datasets) && !has_link(open_alone(*place, false), dataset))) return false;
    const Source source(*place, dataset);
    bool& may_lack = found.emplace(source, true).first->second;
    may_lack = may_lack && block > 0;
    return std::exchange(before, source) != source;  // if each block has the same source, the blocks never end
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string file = text_from(
        where, [&](char* text, std::size_t bytes) { return H5Pget_virtual_filename(creation, i, text, bytes); });
    const std::string dataset = text_from(
        where, [&](char* text, std::size_t bytes) { return H5Pget_virtual_dsetname(creation, i, text, bytes); });
    add(file, dataset, 0);
    if (!has_blocks(file) && !has_blocks(dataset)) continue;
    for (std::size_t block = 1; add(file, dataset, block);) ++block;
  }
  return found;
}

/// HDF5 calls this function for every external link that it follows. Notes `parent`, the file that contains the link.
herr_t note_parent(const char* parent, const char* group, const char* file, const char* object, unsigned* flags,
                   hid_t access, void* files) {
  if (refuse_special_files(parent, group, file, object, flags, access, nullptr) < 0) return -1;
  static_cast<std::vector<std::string>*>(files)->emplace_back(parent);
  return 0;
}

/// Finds all sources of a dataset. A source may be virtual, too. add() loops and does not recurse, because chains of
/// sources can be long.
struct Search {
  const std::string& path;
  std::set<std::string>& others;
  bool counts_gaps = false;
  bool may_be_unread = false;                      ///< passed to described_gaps()
  std::vector<std::string> gaps{};                 ///< with counts_gaps: what described_gaps() has returned
  std::map<Source, std::set<Source>> made_of{};    ///< what each virtual dataset is made of
  std::vector<std::pair<Source, bool>> waiting{};  ///< sources to look at, and whether each may be missing

  void note(const std::string& file) {
    if (!is_same(file, path)) others.insert(file);
  }

  void add(hid_t file, const std::string& file_path, const std::string& name) {
    look(file, file_path, name);
    while (!waiting.empty()) {
      const auto [one, may_lack] = waiting.back();
      const auto& [source, source_name] = one;
      waiting.pop_back();
      if (made_of.contains({source, source_name})) continue;
      const FileId open = open_alone(source, false);
      if (!has_link(open, source_name)) {
        if (may_lack) continue;
        core::fail(core::ErrorKind::failure,
                   "{}: dataset {} is made of dataset {} of {}, which does not exist: HDF5 would read its fill value "
                   "instead",
                   file_path, name, source_name, source);
      }
      look(open, source, source_name,
           fmt::format("{}: dataset {} is made of dataset {} of {}, which", file_path, name, source_name, source));
    }
    refuse_circles(file_path, name);
  }

  /// Throws if a virtual dataset contains itself, because HDF5 would recurse until the stack overflows. Removes from
  /// made_of, level by level, the datasets whose sources are all removed. If datasets remain after 64 levels, they form
  /// a circle or have too many levels.
  void refuse_circles(const std::string& file_path, const std::string& name) {
    constexpr int most_levels = 64;
    for (int level = 0; level < most_levels && !made_of.empty(); ++level) {
      std::vector<Source> last;
      for (const auto& [one, sources] : made_of) {
        const auto is_there = [&](const Source& source) { return made_of.contains(source); };
        if (std::none_of(sources.begin(), sources.end(), is_there)) last.push_back(one);
      }
      for (const Source& one : last) made_of.erase(one);
    }
    if (made_of.empty()) return;
    core::fail(core::ErrorKind::failure, "{}: dataset {} is virtual, and made of itself or in more than {} levels",
               file_path, name, most_levels);
  }

  /// `as_source` begins the message about a source that was never written; it is empty for the dataset itself.
  void look(hid_t file, const std::string& file_path, const std::string& name, const std::string& as_source = "") {
    std::set<Source>& sources = made_of[{file_path, name}];
    const std::string where = file_path + ": dataset " + name;
    std::vector<std::string> parents;
    const PropertyId access(check_hdf5(H5Pcreate(H5P_DATASET_ACCESS), "{}", where));
    check_hdf5(H5Pset_elink_cb(access, note_parent, &parents), "{}", where);
    const DatasetId dataset(
        check_hdf5(comm::blocking("H5Dopen2", H5Dopen2, file, name.c_str(), hid_t(access)), "{}: cannot open", where));
    const std::string holder = file_of(dataset);
    note(holder);
    for (const std::string& parent : parents) note(parent);
    const PropertyId creation = creation_of(dataset, where);
    add_raw(dataset, creation, holder, where);
    if (H5Pget_layout(creation) != H5D_VIRTUAL) {
      const std::vector<Index> extents = extents_of(dataset, where);  // an extent of 0 leaves nothing to write
      if (std::count(extents.begin(), extents.end(), 0) > 0) return;
      if (!as_source.empty()) refuse_unwritten(dataset, as_source);
      if (counts_gaps) note_gaps(dataset, where, as_source);
      return;
    }
    for (const auto& [one, may_lack] : sources_of(dataset, creation, holder, where)) {
      const auto& [source, source_name] = one;
      note(source);
      sources.emplace(source, source_name);
      waiting.emplace_back(one, may_lack);
    }
    if (counts_gaps) note_gaps(dataset, where, as_source);
  }

  void note_gaps(hid_t dataset, const std::string& where, const std::string& as_source) {
    const bool is_source = !as_source.empty();  // the virtual dataset may not use the part that its source lacks
    std::string found = described_gaps(dataset, where, is_source ? as_source : where, may_be_unread || is_source);
    if (!found.empty()) gaps.push_back(std::move(found));
  }

  void add_raw(hid_t dataset, hid_t creation, const std::string& holder, const std::string& where) {
    const int count = check_hdf5(H5Pget_external_count(creation), "{}", where);
    const std::string prefix = prefix_of(dataset, H5Pget_efile_prefix, where);
    hsize_t left = comm::blocking("H5Dget_storage_size", H5Dget_storage_size, dataset);  // bytes that later files hold
    for (int i = 0; i < count; ++i) {
      std::string name(4096, '\0');
      off_t begin = 0;
      hsize_t bytes = 0;
      check_hdf5(H5Pget_external(creation, unsigned(i), name.size() - 1, name.data(), &begin, &bytes), "{}", where);
      name.resize(name.find('\0'));
      const hsize_t used = std::min(bytes, left);  // H5F_UNLIMITED is the largest number
      left -= used;
      if (used == 0) continue;  // earlier files hold all numbers, so HDF5 does not open this file
      const fs::path named = fs::path(prefix) / name;
      const auto place = found_file({named}, holder);
      if (!place) {
        core::fail(core::ErrorKind::failure,
                   "{}: its numbers are in {}, which does not exist; HDF5 looks for a relative name in the working "
                   "directory, or where HDF5_EXTFILE_PREFIX says",
                   where, named.string());
      }
      note(*place);
      const std::uintmax_t end = std::uintmax_t(begin) + used, size = fs::file_size(*place);
      if (size >= end) continue;
      core::fail(core::ErrorKind::failure, "{}: its numbers are in {}, which has {} bytes, expected at least {}", where,
                 *place, size, end);
    }
  }
};

}  // namespace

bool is_in_another_file(hid_t dataset, const std::string& path) { return !is_same(file_of(dataset), path); }

void check_sources(hid_t file, const std::string& path, const std::string& name, hid_t dataset) {
  const PropertyId creation = creation_of(dataset, fmt::format("{}: {}", path, name));
  if (H5Pget_layout(creation) != H5D_VIRTUAL && H5Pget_external_count(creation) <= 0) return;
  std::set<std::string> others;
  Search{path, others}.add(file, path, name);
}

std::string add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others,
                            bool may_be_unread) {
  Search search{path, others, /*counts_gaps=*/true, may_be_unread};
  search.add(file, path, name);
  if (search.gaps.size() <= 1) return search.gaps.empty() ? "" : search.gaps.front();
  return fmt::format("{} (and {} more parts like this)", search.gaps.front(), search.gaps.size() - 1);
}

}  // namespace annulus::store
