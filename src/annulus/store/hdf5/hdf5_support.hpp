// Defines HDF5 ids that close themselves, and helper functions whose errors contain HDF5's reason.
// Include this file only in .cpp files of store and report, and in the headers of this folder.
#pragma once

#include <hdf5.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Index;

/// HDF5's list of variable length. The type has a name, because nvcc 13.0 cannot compile vectors of HDF5's unnamed
/// struct.
struct VariableList : hvl_t {};

/// Stops HDF5 from printing its errors to stderr; our messages contain HDF5's reason instead.
void quiet_hdf5();

/// The innermost message of HDF5's last error, with ": " in front; empty if HDF5 gave none.
std::string hdf5_reason();

/// Returns `id`, an id or status code of HDF5. If it is negative, throws Error(failure) with message and HDF5's reason.
template <class Id, class... Args>
Id check_hdf5(Id id, fmt::format_string<Args...> format, Args&&... args) {
  if (id < 0) {
    const std::string reason = hdf5_reason();
    core::fail(core::ErrorKind::failure, "{}{}", fmt::format(format, std::forward<Args>(args)...), reason);
  }
  return id;
}

/// Owns one HDF5 id. `Close` is the HDF5 function that closes the id.
template <herr_t (*Close)(hid_t)>
class Hdf5Id {
 public:
  Hdf5Id() = default;
  explicit Hdf5Id(hid_t id) : id_(id) {}
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Id() {
    if (id_ >= 0) close();
  }
  operator hid_t() const { return id_; }
  /// Closes the object now, and returns a negative number if this fails. A file that closes without failure is written
  /// completely.
  herr_t close() { return comm::blocking_quietly("the closing of an HDF5 object", Close, std::exchange(id_, -1)); }

 private:
  hid_t id_ = -1;
};
using FileId = Hdf5Id<H5Fclose>;
using DatasetId = Hdf5Id<H5Dclose>;
using SpaceId = Hdf5Id<H5Sclose>;
using TypeId = Hdf5Id<H5Tclose>;
using PropertyId = Hdf5Id<H5Pclose>;
using GroupId = Hdf5Id<H5Gclose>;
using AttributeId = Hdf5Id<H5Aclose>;
using ObjectId = Hdf5Id<H5Oclose>;

/// HDF5's type for numbers in a file (little-endian), and in memory (the machine's byte order). For 16-bit floats the
/// two types differ at most in byte order, so HDF5 copies their bits and never rounds.
TypeId file_type(NumberType type);
TypeId memory_type(NumberType type);
/// The storage type that equals an HDF5 type, in either byte order; empty for any other type.
std::optional<core::DType> dtype_of(hid_t type);
/// The same, but also recognises int64.
std::optional<NumberType> number_type_of(hid_t type);
/// An HDF5 type in words, for messages: "32-bit integer", "80-bit float", "text".
std::string describe_type(hid_t type);

/// The type for text of variable length in UTF-8; h5py reads it as str.
TypeId text_type();

/// Throws Error(failure) if this rank cannot open `path`, or if `path` is a folder, or a FIFO or device for which HDF5
/// would wait. Returns the result of stat().
struct stat check_openable(const std::string& path, bool to_write);

/// Opens a file on this rank alone. Throws Error(failure); the message says whether the file is missing, a folder, of
/// another format, or damaged.
FileId open_alone(const std::string& path, bool to_write);

/// Makes a file on this rank alone, and replaces an existing file. In the file, every object of at least `large` bytes
/// starts at a multiple of `step` bytes. Throws Error(failure).
FileId create_alone(const std::string& path, Index large = 1, Index step = 1);

/// HDF5 calls this for every external link that it follows (H5Pset_elink_cb). Fails if the link leads to a FIFO or a
/// device, for which HDF5 would wait.
herr_t refuse_special_files(const char* parent, const char* group, const char* file, const char* object,
                            unsigned* flags, hid_t access, void* nothing);
/// Access properties with which HDF5 calls refuse_special_files() for every external link that it follows.
PropertyId link_access();

/// The paths ("/q") of the links in a file's top group, at most 10,000 of them. Throws Error(failure).
std::vector<std::string> links_in(hid_t file, const std::string& path);

/// Opens a dataset. Throws Error(failure) with file and dataset if it is missing or not a dataset. If it is missing,
/// the message ends with `asked_by`: what needs the dataset, and how to get it.
DatasetId open_dataset(hid_t file, const std::string& path, const std::string& name, const std::string& asked_by = "");

/// The properties with which a dataset was made; `where` names it.
PropertyId creation_of(hid_t dataset, const std::string& where);

/// Makes a dataset without times and fill values, so that its bytes depend only on the numbers that are written.
DatasetId make_dataset(hid_t parent, const std::string& name, hid_t type, hid_t space);
/// Adds a dataset that holds one text.
void add_text_dataset(hid_t parent, const std::string& name, const std::string& text);

GroupId make_group(hid_t parent, const std::string& name);

/// Extents of a dataset, which `where` names. Throws Error(failure) for more numbers than any machine can hold, because
/// a damaged file can claim numbers that it does not contain.
std::vector<Index> extents_of(hid_t dataset, const std::string& where);
SpaceId space_of(const std::vector<Index>& extents);

}  // namespace annulus::store
