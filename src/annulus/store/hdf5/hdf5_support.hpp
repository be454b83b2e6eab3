// HDF5 ids that close themselves, and HDF5's reasons in our errors.
// Included by .cpp files of this room and of report only.
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

/// HDF5's list of any length, with a name: the C struct has none, and nvcc 13.0 breaks off at vectors of such.
struct VariableList : hvl_t {};

/// Stops HDF5 from printing its error stack to stderr: its reason goes into our messages instead.
void quiet_hdf5();

/// The innermost message of HDF5's last error, ": " in front; empty when HDF5 gave none.
std::string hdf5_reason();

/// `id` when it is valid, else Error(failure): the message and HDF5's reason. Also for status codes.
template <class Id, class... Args>
Id check_hdf5(Id id, fmt::format_string<Args...> format, Args&&... args) {
  if (id < 0) {
    const std::string reason = hdf5_reason();
    core::fail(core::ErrorKind::failure, "{}{}", fmt::format(format, std::forward<Args>(args)...), reason);
  }
  return id;
}

/// Owns one id. `Close` is the function that gives it back.
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
  /// Closes now and tells whether that went well, which for a file means that everything is written.
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

/// Storage type on file (little-endian) and in memory (the machine's order). 16-bit types are the same but for the
/// order, so HDF5 copies their bits and never rounds.
TypeId file_type(NumberType type);
TypeId memory_type(NumberType type);
/// The storage type that an HDF5 type is, in either byte order; nothing for every other type.
std::optional<core::DType> dtype_of(hid_t type);
/// The same, and int64.
std::optional<NumberType> number_type_of(hid_t type);
/// An HDF5 type in words, for messages: "32-bit integer", "80-bit float", "text".
std::string describe_type(hid_t type);

/// Text of any length, UTF-8: h5py reads it as str.
TypeId text_type();

/// Throws Error(failure) when this rank cannot open `path`, or when it is a folder, a FIFO or a device, which HDF5
/// would wait for. Tells what it opened.
struct stat check_openable(const std::string& path, bool to_write);

/// Opens a file on this rank alone. Throws Error(failure) that tells a missing file, a folder, a file of another
/// format and a damaged one apart.
FileId open_alone(const std::string& path, bool to_write);

/// Makes a file on this rank alone, in place of one that is there, in which all of `large` bytes and more starts at a
/// multiple of `step`. Throws Error(failure).
FileId create_alone(const std::string& path, Index large = 1, Index step = 1);

/// What HDF5 calls at every external link that it follows (H5Pset_elink_cb): fails where the link leads to a FIFO or a
/// device, for which HDF5 would wait.
herr_t refuse_special_files(const char* parent, const char* group, const char* file, const char* object,
                            unsigned* flags, hid_t access, void* nothing);
/// The properties with which links are followed: every external link is checked by refuse_special_files().
PropertyId link_access();

/// Opens a dataset. Throws Error(failure) naming file and dataset when it is missing or something else; `asked_by`
/// ends the message when it is missing: who names it, and how to get it.
DatasetId open_dataset(hid_t file, const std::string& path, const std::string& name, const std::string& asked_by = "");

/// Makes a group in a file or group.
GroupId make_group(hid_t parent, const std::string& name);

/// Extents of a dataset, which `where` names. Throws Error(failure) where they are more than any machine holds: numbers
/// that a file claims need not be in it.
std::vector<Index> extents_of(hid_t dataset, const std::string& where);
/// A space of these extents.
SpaceId space_of(const std::vector<Index>& extents);

}  // namespace annulus::store
