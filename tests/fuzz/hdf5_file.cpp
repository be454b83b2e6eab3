#include "hdf5_file.hpp"

#include <hdf5.h>

#include <array>
#include <numeric>
#include <vector>

namespace annulus::fuzz {
namespace {

using Extents = std::vector<hsize_t>;

/// A dataset's name, and its shape and type in a valid file.
struct Wanted {
  const char* name;
  Extents extents;
  bool is_whole = false;  ///< int64, otherwise float32
};
const std::array<Wanted, 17>& wanted() {
  static const std::array<Wanted, 17> all{{{"q", {2, 4, 2, 3}},
                                           {"k", {2, 4, 1, 3}},
                                           {"v", {2, 4, 1, 3}},
                                           {"dout", {2, 4, 2, 3}},
                                           {"dlse", {2, 4, 2}},
                                           {"sink", {2}},
                                           {"documents", {3}, true},
                                           {"lengths", {2, 2}, true},
                                           {"coordinates", {4, 2}},
                                           {"x", {2, 4, 5}},
                                           {"dy", {2, 4, 5}},
                                           {"wq", {5, 6}},
                                           {"wk", {5, 3}},
                                           {"wv", {5, 3}},
                                           {"wo", {6, 5}},
                                           {"bq", {6}},
                                           {"loss", {7}}}};
  return all;
}

hid_t text_type(bool is_variable) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, is_variable ? H5T_VARIABLE : 5);
  return type;
}

/// Draws a type, of any class, some in either byte order. The caller closes it.
hid_t draw_type(Draw& draw, bool is_whole) {
  const hid_t right = is_whole ? H5T_STD_I64LE : H5T_IEEE_F32LE;
  if (!draw.once_in(8)) return H5Tcopy(right);
  switch (draw.below(16)) {
    case 0:
      return H5Tcopy(H5T_IEEE_F64LE);
    case 1:
      return H5Tcopy(H5T_IEEE_F32BE);
    case 2:
      return H5Tcopy(H5T_STD_I64BE);
    case 3:
      return H5Tcopy(H5T_STD_U8LE);
    case 4:
      return H5Tcopy(H5T_STD_U64BE);
    case 5:
      return text_type(true);
    case 6:
      return text_type(false);
    case 7:
      return H5Tcopy(H5T_STD_REF_OBJ);
    case 8:
      return H5Tvlen_create(right);
    case 9: {
      const hsize_t two = 2;
      return H5Tarray_create2(right, 1, &two);
    }
    case 10: {
      const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
      H5Tinsert(type, "r", 0, H5T_IEEE_F64LE);
      H5Tinsert(type, "i", 8, H5T_IEEE_F64LE);
      return type;
    }
    case 11:
      return H5Tcreate(H5T_OPAQUE, 1 + draw.below(9));
    case 12:
      return H5Tenum_create(H5T_STD_I8LE);
    case 13:
      return H5Tcopy(H5T_STD_B8LE);
    default: {  // a float of 16 bits: float16 or bfloat16
      const hid_t type = H5Tcopy(draw.once_in(2) ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
      const std::size_t exponent = draw.once_in(3) ? 5 : 8;
      H5Tset_fields(type, 15, 15 - exponent, exponent, 0, 15 - exponent);
      H5Tset_size(type, 2);
      H5Tset_ebias(type, exponent == 5 ? 15 : 127);
      return type;
    }
  }
}

void distort(Draw& draw, Extents& extents) {
  if (!draw.once_in(8)) return;
  switch (draw.below(6)) {
    case 0:
      extents.clear();
      break;
    case 1:
      extents.push_back(1 + draw.below(3));
      break;
    case 2:
      if (!extents.empty()) extents.pop_back();
      break;
    case 3:
      if (!extents.empty()) extents[draw.below(extents.size())] = 0;
      break;
    case 4:  // much more than any memory
      if (!extents.empty()) extents[draw.below(extents.size())] = hsize_t(1) << draw.below(64);
      break;
    default:
      if (!extents.empty()) extents[draw.below(extents.size())] = draw.below(9);
  }
}

/// True if there are so few numbers that the file can store them all.
bool is_small(const Extents& extents) {
  hsize_t count = 1;
  for (const hsize_t extent : extents) {
    if (extent > 4096) return false;
    count *= extent;
  }
  return count <= 4096;
}

void add_filters(Draw& draw, hid_t creation) {
  for (std::size_t i = draw.below(4); i > 0; --i) {
    switch (draw.below(7)) {
      case 0:
        H5Pset_deflate(creation, 6);
        break;
      case 1:
        H5Pset_shuffle(creation);
        break;
      case 2:
        H5Pset_fletcher32(creation);
        break;
      case 3:
        H5Pset_nbit(creation);
        break;
      case 4:
        H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
        break;
      case 5:
        H5Pset_szip(creation, H5_SZIP_NN_OPTION_MASK, 8);
        break;
      default:  // a filter that is not installed, and is optional
        H5Pset_filter(creation, H5Z_filter_t(32000 + draw.below(32)), H5Z_FLAG_OPTIONAL, 0, nullptr);
    }
  }
}

/// Draws how the numbers are stored. Virtual datasets take theirs from beside.h5 or other files.
hid_t draw_creation(Draw& draw, const Extents& extents, const std::string& name) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const std::size_t kind = draw.once_in(3) ? draw.below(5) : 0;
  if (kind == 1) H5Pset_layout(creation, H5D_COMPACT);
  if (kind == 2 || (kind == 0 && !is_small(extents))) {
    Extents chunk(extents.size());
    for (hsize_t& one : chunk) one = 1 + draw.below(4);
    if (!chunk.empty()) H5Pset_chunk(creation, int(chunk.size()), chunk.data());
    add_filters(draw, creation);
  }
  if (kind == 3) {
    const char* const names[] = {"raw.bin", "no_such.bin", "in.h5"};
    H5Pset_external(creation, (folder() + "/" + names[draw.below(3)]).c_str(), off_t(draw.below(64)),
                    draw.once_in(2) ? H5F_UNLIMITED : 4096);
  }
  if (kind == 4 && !extents.empty()) {
    const hid_t space = H5Screate_simple(int(extents.size()), extents.data(), nullptr);
    const char* const files[] = {"beside.h5", ".", "no_such.h5", "in.h5", "b%bside.h5", "beside.h5%%", "raw.bin"};
    const std::string source = draw.once_in(4) ? wanted()[draw.below(wanted().size())].name : name;
    H5Pset_virtual(creation, space, files[draw.below(7)], source.c_str(), space);
    H5Sclose(space);
  }
  const H5D_alloc_time_t times[] = {H5D_ALLOC_TIME_DEFAULT, H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_INCR};
  if (is_small(extents)) H5Pset_alloc_time(creation, times[draw.below(3)]);
  return creation;
}

void add_attributes(Draw& draw, hid_t object) {
  const char* const names[] = {"_FillValue", "missing_value", "scale_factor",   "add_offset",       "axes",
                               "NAME",       "CLASS",         "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST"};
  for (std::size_t i = draw.once_in(4) ? draw.below(4) : 0; i > 0; --i) {
    const char* const name = names[draw.below(10)];
    if (H5Aexists(object, name) > 0) continue;
    const bool is_list = draw.once_in(2);
    const hid_t type = is_list ? H5Tvlen_create(H5T_STD_REF_OBJ) : draw_type(draw, draw.once_in(2));
    const hsize_t count = draw.below(6);
    const hid_t space = draw.once_in(6)   ? H5Screate(H5S_NULL)
                        : draw.once_in(2) ? H5Screate(H5S_SCALAR)
                                          : H5Screate_simple(1, &count, nullptr);
    const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const std::size_t bytes = attribute < 0 ? 0 : H5Tget_size(type) * 6;
    std::vector<unsigned char> value(bytes, 0);
    if (H5Tdetect_class(type, H5T_VLEN) <= 0 && H5Tis_variable_str(type) <= 0) {  // values of these types are pointers
      for (unsigned char& one : value) one = static_cast<unsigned char>(draw.byte());
    }
    if (attribute >= 0 && H5Tget_class(type) != H5T_STRING) H5Awrite(attribute, type, value.data());
    const char* words[6] = {"batch sequence heads head_dim", "heads", "", "x", "sequence", "S H"};
    if (attribute >= 0 && H5Tis_variable_str(type) > 0) H5Awrite(attribute, type, words);
    if (attribute >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0)
      H5Awrite(attribute, type, value.data());
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
  }
}

/// Writes numbers 0, 2, 4, ..., at times with an odd one (-1, NaN); a run file's text as strings of variable length;
/// 'a' as other strings and in compound, opaque and array types. Writes nothing for other types, and at times.
void write_numbers(Draw& draw, hid_t dataset, hid_t type, const Extents& extents) {
  if (!is_small(extents) || draw.once_in(16)) return;  // never written
  const std::size_t count =
      std::size_t(std::accumulate(extents.begin(), extents.end(), hsize_t(1), std::multiplies<hsize_t>()));
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_FLOAT || kind == H5T_INTEGER) {
    std::vector<double> numbers(count + 1);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = double(i) * 2;
    if (count > 0 && draw.once_in(8)) {
      const double odd[] = {-1, 1e300, 0.0 / 0.0, 1.0 / 0.0, 4, 1e18, -1e18, 7};
      numbers[draw.below(count)] = odd[draw.below(8)];
    }
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());
  } else if (kind == H5T_STRING && H5Tis_variable_str(type) > 0) {
    const std::vector<const char*> texts(count + 1, "input: {file: in.h5}\nlayer: {heads: 2}\n");
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data());
  } else if (kind == H5T_STRING || kind == H5T_COMPOUND || kind == H5T_OPAQUE || kind == H5T_ARRAY) {
    const std::vector<char> bytes((count + 1) * H5Tget_size(type), 'a');
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  }
}

void add_dataset(Draw& draw, hid_t file, const Wanted& one) {
  Extents extents = one.extents;
  distort(draw, extents);
  const hid_t type = draw_type(draw, one.is_whole);
  const bool is_null = draw.once_in(64);
  const hid_t space = is_null           ? H5Screate(H5S_NULL)
                      : extents.empty() ? H5Screate(H5S_SCALAR)
                                        : H5Screate_simple(int(extents.size()), extents.data(), nullptr);
  const hid_t creation = draw_creation(draw, extents, one.name);
  const hid_t dataset = space < 0 ? -1 : H5Dcreate2(file, one.name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (dataset >= 0) {
    if (!is_null && H5Pget_layout(creation) != H5D_VIRTUAL) write_numbers(draw, dataset, type, extents);
    add_attributes(draw, dataset);
    H5Dclose(dataset);
  }
  H5Pclose(creation);
  if (space >= 0) H5Sclose(space);
  H5Tclose(type);
}

void add_object(Draw& draw, hid_t file, const Wanted& one) {
  if (!draw.once_in(12)) return add_dataset(draw, file, one);
  const char* const files[] = {"beside.h5", "in.h5", "no_such.h5", "raw.bin"};
  const char* const other = wanted()[draw.below(wanted().size())].name;
  hid_t made = -1;
  switch (draw.below(6)) {
    case 0:
      made = H5Gcreate2(file, one.name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      if (made >= 0) H5Gclose(made);
      break;
    case 1:
      H5Lcreate_soft(other, file, one.name, H5P_DEFAULT, H5P_DEFAULT);
      break;
    case 2:
      H5Lcreate_external(files[draw.below(4)], draw.once_in(2) ? one.name : other, file, one.name, H5P_DEFAULT,
                         H5P_DEFAULT);
      break;
    case 3:
      made = H5Tcopy(H5T_IEEE_F32LE);
      H5Tcommit2(file, one.name, made, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Tclose(made);
      break;
    case 4:
      H5Lcreate_hard(file, other, file, one.name, H5P_DEFAULT, H5P_DEFAULT);
      break;
    default:  // no object of this name
      break;
  }
}

void make_file(Draw& draw, const std::string& name, std::size_t datasets) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (draw.once_in(3)) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  if (draw.once_in(8)) H5Pset_userblock(creation, 512);
  const std::string path = folder() + "/" + name;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  expect(file >= 0, "no file " + path);
  for (std::size_t i = 0; i < datasets; ++i) add_object(draw, file, wanted()[i]);
  const hid_t run = H5Gcreate2(file, "run", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t type = draw.once_in(4) ? draw_type(draw, false) : text_type(true), space = H5Screate(H5S_SCALAR);
  const hid_t settings = H5Dcreate2(run, "settings", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (settings >= 0) {
    write_numbers(draw, settings, type, {});
    H5Dclose(settings);
  }
  add_attributes(draw, file);
  H5Sclose(space);
  H5Tclose(type);
  H5Gclose(run);
  H5Fclose(file);
  H5Pclose(creation);
  H5Pclose(access);
}

}  // namespace

std::string make_hdf5_file(Draw& draw) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  write_file("raw.bin", std::string(2048, 'r'));
  make_file(draw, "in.h5", wanted().size());
  make_file(draw, "beside.h5", draw.once_in(2) ? 9 : 3);
  expect(H5Fget_obj_count(hid_t(H5F_OBJ_ALL), H5F_OBJ_ALL | H5F_OBJ_LOCAL) == 0, "the target keeps objects open");
  return folder() + "/in.h5";
}

}  // namespace annulus::fuzz
