#include "annulus/store/hdf5/hdf5_support.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "annulus/runfile/user_words.hpp"
#include "annulus/store/files/descriptor.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;

/// Describes a float format: its bytes, the bits where sign, exponent and mantissa begin, their lengths, and the bias.
struct FloatLayout {
  std::size_t size, sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
  bool operator==(const FloatLayout&) const = default;
};
constexpr FloatLayout layout_of(DType type) {
  switch (type) {
    case DType::float64:
      return {8, 63, 52, 11, 0, 52, 1023};
    case DType::float32:
      return {4, 31, 23, 8, 0, 23, 127};
    case DType::float16:
      return {2, 15, 10, 5, 0, 10, 15};
    case DType::bfloat16:
      return {2, 15, 7, 8, 0, 7, 127};
  }
  return {};
}

/// Makes a 16-bit float type from a 32-bit one. Sets the fields first, because they must fit when the size is reduced.
TypeId small_float(DType type, hid_t from) {
  const FloatLayout l = layout_of(type);
  TypeId id(check_hdf5(H5Tcopy(from), "HDF5 type for {}", core::name_of(type)));
  check_hdf5(H5Tset_fields(id, l.sign, l.exponent, l.exponent_bits, l.mantissa, l.mantissa_bits), "HDF5 type fields");
  check_hdf5(H5Tset_size(id, l.size), "HDF5 type size");
  check_hdf5(H5Tset_ebias(id, l.bias), "HDF5 type bias");
  return id;
}

/// HDF5's type for `type` in the byte order of the three given types.
TypeId type_among(hid_t int64, hid_t float64, hid_t float32, NumberType type) {
  if (!type.dtype()) return TypeId(H5Tcopy(int64));
  if (type == DType::float64) return TypeId(H5Tcopy(float64));
  if (type == DType::float32) return TypeId(H5Tcopy(float32));
  return small_float(*type.dtype(), float32);
}

/// HDF5 must not close objects at the end of the process. It would try again to close a file that it could not close
/// before (on a full disk), and HDF5 1.10 would then crash. This program itself has closed everything that matters
/// before. H5dont_atexit() must be the first call of HDF5.
[[maybe_unused]] const herr_t nothing_at_exit = H5dont_atexit();

/// HDF5 calls this with the errors on its stack, the innermost first. Keeps the first error. The result 1 means that
/// HDF5 makes no more such calls.
herr_t take_innermost(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 1;
}

/// Properties for opening a file with locks, or without locks if the file system does not support them (some parallel
/// ones). Before version 1.10.7, and in 1.12.0, HDF5 itself decides whether it locks.
PropertyId alone_access() {
  PropertyId access(check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "HDF5 file access"));
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  check_hdf5(H5Pset_file_locking(access, true, true), "HDF5 file locking");
#endif
  return access;
}

/// Throws the error that says why a file could not be opened.
[[noreturn]] void fail_to_open(const std::string& path, const std::string& reason) {
  if (reason.find("unable to lock file") != std::string::npos) {
    fail(ErrorKind::failure,
         "{}: another process has it open for writing (a notebook? close it there, or use a with block){}", path,
         reason);
  }
  if (reason.find("already open for") != std::string::npos) {  // in its newer formats, HDF5 marks a file that is open
    fail(ErrorKind::failure,
         "{}: another process has it open for writing, or ended without closing it (`h5clear -s` takes its mark off){}",
         path, reason);
  }
  fail(ErrorKind::failure, "{}: HDF5 cannot open it (damaged or cut short?){}", path, reason);
}

constexpr std::size_t most_links = 10000;  // a limit is needed, because in a damaged file the list may be endless

/// Names the links: "nothing", "/q, /k", or the first 12 and ", ..." if there are more. Leaves out scales without
/// coordinates.
std::string first_of(const std::vector<std::string>& links, hid_t file) {
  constexpr std::size_t most = 12;
  std::vector<std::string> shown;
  const PropertyId access = link_access();
  for (const std::string& name : links) {
    if (shown.size() > most) break;
    const ObjectId object(comm::blocking("H5Oopen", H5Oopen, file, name.c_str(), hid_t(access)));
    if (object < 0 || !is_bare_scale(object)) shown.push_back(name);
  }
  if (shown.size() > most) {
    shown.back() = "...";
  } else if (links.size() == most_links) {
    shown.emplace_back("...");
  }
  return shown.empty() ? "nothing" : fmt::format("{}", fmt::join(shown, ", "));
}

/// True if the object `name` exists, and every group on the way to the object.
bool exists(hid_t file, const std::string& name) {
  const PropertyId access = link_access();
  for (std::size_t end = name.find('/', 1); end != std::string::npos; end = name.find('/', end + 1)) {
    if (comm::blocking("H5Oexists_by_name", H5Oexists_by_name, file, name.substr(0, end).c_str(), hid_t(access)) <= 0)
      return false;
  }
  return comm::blocking("H5Lexists", H5Lexists, file, name.c_str(), hid_t(access)) > 0 &&
         comm::blocking("H5Oexists_by_name", H5Oexists_by_name, file, name.c_str(), hid_t(access)) > 0;
}

}  // namespace

PropertyId link_access() {
  PropertyId access(check_hdf5(H5Pcreate(H5P_DATASET_ACCESS), "HDF5 link access"));
  check_hdf5(H5Pset_elink_cb(access, refuse_special_files, nullptr), "HDF5 link access");
  return access;
}

void quiet_hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string hdf5_reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &text);
  return text.empty() ? "" : ": " + text;
}

TypeId file_type(NumberType type) { return type_among(H5T_STD_I64LE, H5T_IEEE_F64LE, H5T_IEEE_F32LE, type); }

TypeId memory_type(NumberType type) { return type_among(H5T_NATIVE_INT64, H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT, type); }

std::optional<DType> dtype_of(hid_t type) {
  if (H5Tget_class(type) != H5T_FLOAT) return std::nullopt;
  FloatLayout found{H5Tget_size(type), 0, 0, 0, 0, 0, H5Tget_ebias(type)};
  H5Tget_fields(type, &found.sign, &found.exponent, &found.exponent_bits, &found.mantissa, &found.mantissa_bits);
  for (const DType known : core::all_dtypes) {
    if (found == layout_of(known)) return known;
  }
  return std::nullopt;
}

std::optional<NumberType> number_type_of(hid_t type) {
  if (const auto known = dtype_of(type)) return *known;
  const bool is_int64 = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 8 && H5Tget_sign(type) == H5T_SGN_2;
  return is_int64 ? std::optional(NumberType::int64()) : std::nullopt;
}

std::string describe_type(hid_t type) {
  if (const auto known = dtype_of(type)) return std::string(core::name_of(*known));
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}-bit integer", bits);
    case H5T_FLOAT:
      return fmt::format("{}-bit float", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "compound (complex numbers?)";
    default:
      return "neither float nor integer";
  }
}

herr_t refuse_special_files(const char* parent, const char*, const char* file, const char*, unsigned*, hid_t, void*) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path(parent).parent_path(), real = fs::canonical(parent, ignored).parent_path();
  for (const fs::path& candidate : {folder / file, real / file, fs::path(file)}) {
    if (fs::is_other(fs::status(candidate, ignored))) return -1;
  }
  return 0;
}

TypeId text_type() {
  TypeId type(check_hdf5(H5Tcopy(H5T_C_S1), "HDF5 text type"));
  check_hdf5(H5Tset_size(type, H5T_VARIABLE), "HDF5 text type");
  check_hdf5(H5Tset_cset(type, H5T_CSET_UTF8), "HDF5 text type");
  return type;
}

struct stat check_openable(const std::string& path, bool to_write) {
  const comm::BlockingScope inside("the opening of " + path);
  struct stat found {};
  // stat() comes first, because opening a device can have effects. With O_NONBLOCK, open() does not wait for a FIFO
  // that was made at this path after stat().
  if (stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) {
    const Descriptor descriptor(path, (to_write ? O_RDWR : O_RDONLY) | O_NONBLOCK);
    if (fstat(descriptor.id(), &found) != 0) {
      fail(ErrorKind::failure, "{}: cannot be looked at: {}", path, std::strerror(errno));
    }
  }
  if (!S_ISREG(found.st_mode)) fail(ErrorKind::failure, "{}: is {}, expected an HDF5 file", path, kind_of_file(found));
  return found;
}

FileId open_alone(const std::string& path, bool to_write) {
  quiet_hdf5();
  check_openable(path, to_write);
  if (comm::blocking("H5Fis_hdf5", H5Fis_hdf5, path.c_str()) <= 0)
    fail(ErrorKind::failure, "{}: is not an HDF5 file", path);
  const PropertyId access = alone_access();
  FileId file(comm::blocking("H5Fopen", H5Fopen, path.c_str(), to_write ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access));
  if (file < 0) fail_to_open(path, hdf5_reason());
  return file;
}

FileId create_alone(const std::string& path, Index large, Index step) {
  quiet_hdf5();
  const PropertyId access = alone_access();
  check_hdf5(H5Pset_alignment(access, hsize_t(large), hsize_t(step)), "HDF5 alignment");
  return FileId(check_hdf5(comm::blocking("H5Fcreate", H5Fcreate, path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access),
                           "{}: cannot be made", path));
}

std::vector<std::string> links_in(hid_t file, const std::string& path) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(to);
    list.push_back(std::string("/") + name);
    return list.size() < most_links ? 0 : 1;  // 1 ends the iteration
  };
  check_hdf5(comm::blocking("H5Literate", H5Literate, file, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
             "{}: listing its datasets failed", path);
  return names;
}

DatasetId open_dataset(hid_t file, const std::string& path, const std::string& name, const std::string& asked_by) {
  if (!exists(file, name)) {
    const std::vector<std::string> links = links_in(file, path);
    const std::string from_root = name.starts_with('/') ? name : '/' + name;
    const std::string ending = asked_by.empty() ? "" : "; " + asked_by;
    if (std::find(links.begin(), links.end(), from_root) != links.end()) {
      fail(ErrorKind::failure,
           "{}: dataset {} is a link to nothing that can be read: no object, no file, a FIFO or a device{}", path, name,
           ending);
    }
    const bool is_letter = from_root.size() == 2;  // suggests nothing, because any other letter would be similar
    fail(ErrorKind::failure, "{}: no dataset {} (in the file: {}){}{}", path, name, first_of(links, file),
         is_letter ? "" : runfile::suggest(from_root, links), ending);
  }
  const PropertyId access = link_access();
  const ObjectId object(check_hdf5(comm::blocking("H5Oopen", H5Oopen, file, name.c_str(), hid_t(access)),
                                   "{}: cannot open {}", path, name));
  if (H5Iget_type(object) != H5I_DATASET) {
    fail(ErrorKind::failure, "{}: {} is {}, expected a dataset", path, name,
         H5Iget_type(object) == H5I_GROUP ? "a group" : "a named type");
  }
  DatasetId dataset(check_hdf5(comm::blocking("H5Dopen2", H5Dopen2, file, name.c_str(), hid_t(access)),
                               "{}: cannot open dataset {}", path, name));
  check_sources(file, path, name, dataset);  // before extents are read, because they may depend on sources
  return dataset;
}

PropertyId creation_of(hid_t dataset, const std::string& where) {
  return PropertyId(check_hdf5(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, dataset), "{}", where));
}

DatasetId make_dataset(hid_t parent, const std::string& name, hid_t type, hid_t space) {
  const PropertyId creation(check_hdf5(H5Pcreate(H5P_DATASET_CREATE), "HDF5 dataset creation"));
  check_hdf5(H5Pset_layout(creation, H5D_CONTIGUOUS), "HDF5 layout");
  check_hdf5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "HDF5 allocation");
  // HDF5 stores a text of variable length as a reference. HDF5 must initialise the reference before it writes the text.
  if (H5Tis_variable_str(type) <= 0) check_hdf5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "HDF5 fill");
  check_hdf5(H5Pset_obj_track_times(creation, false), "HDF5 times");
  const PropertyId links(check_hdf5(H5Pcreate(H5P_LINK_CREATE), "HDF5 link creation"));
  check_hdf5(H5Pset_create_intermediate_group(links, 1), "HDF5 groups");
  return DatasetId(check_hdf5(
      comm::blocking("H5Dcreate2", H5Dcreate2, parent, name.c_str(), type, space, links, creation, H5P_DEFAULT),
      "dataset {}", name));
}

void add_text_dataset(hid_t parent, const std::string& name, const std::string& text) {
  const TypeId type = text_type();
  const SpaceId scalar(check_hdf5(H5Screate(H5S_SCALAR), "HDF5 scalar"));
  const DatasetId dataset = make_dataset(parent, name, type, scalar);
  const char* words = text.c_str();
  check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &words), "writing {}",
             name);
}

GroupId make_group(hid_t parent, const std::string& name) {
  return GroupId(
      check_hdf5(comm::blocking("H5Gcreate2", H5Gcreate2, parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                 "group {}", name));
}

std::vector<Index> extents_of(hid_t dataset, const std::string& where) {
  constexpr hsize_t most = hsize_t(1) << 50;  // numbers; their bytes can then be counted in 64 bits
  const SpaceId space(check_hdf5(comm::blocking("H5Dget_space", H5Dget_space, dataset), "HDF5 extents"));
  std::vector<hsize_t> extents(std::size_t(std::max(0, H5Sget_simple_extent_ndims(space))));
  if (!extents.empty()) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  hsize_t count = 1;
  for (const hsize_t extent : extents) {
    if (extent > most / count) {
      fail(ErrorKind::failure, "{} has shape ({}), expected at most {} numbers", where, fmt::join(extents, ", "), most);
    }
    count *= std::max<hsize_t>(extent, 1);
  }
  return {extents.begin(), extents.end()};
}

SpaceId space_of(const std::vector<Index>& extents) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  return SpaceId(check_hdf5(H5Screate_simple(int(sizes.size()), sizes.data(), nullptr), "HDF5 extents"));
}

}  // namespace annulus::store
