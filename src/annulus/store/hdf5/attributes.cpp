#include "annulus/store/hdf5/attributes.hpp"

#include <algorithm>
#include <array>

#include "annulus/comm/activity.hpp"

namespace annulus::store {
namespace {

constexpr hssize_t most_elements = 4096;
constexpr std::size_t most_text = 65536;  // bytes of a text with fixed length

/// "in.h5: /q: attribute axes", for messages.
std::string name_of(hid_t object, const std::string& attribute) {
  std::array<char, 4096> file{}, name{};
  comm::blocking("H5Fget_name", H5Fget_name, object, file.data(), file.size());
  comm::blocking("H5Iget_name", H5Iget_name, object, name.data(), name.size());
  return fmt::format("{}: {}: attribute {}", file.data(), name.data(), attribute);
}

struct OpenAttribute {
  AttributeId id;
  TypeId type;
  SpaceId space;

  bool is_there() const { return id >= 0; }
  /// Number of elements. Throws Error(failure) if there are more elements than axis names or fill values need, because
  /// a damaged file can claim elements that it does not contain. Many elements can also refer to one text, which HDF5
  /// copies for each element.
  std::size_t count(hid_t object, const std::string& name) const {
    const hssize_t count = std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space));
    if (count > most_elements) {
      core::fail(core::ErrorKind::failure, "{} has {} elements, expected at most {}", name_of(object, name), count,
                 most_elements);
    }
    return std::size_t(count);
  }
};
/// Opens an attribute if it exists; `where` names it in messages.
OpenAttribute open_attribute(hid_t object, const std::string& name, const std::string& where) {
  if (comm::blocking("H5Aexists", H5Aexists, object, name.c_str()) <= 0) return {};
  AttributeId id(check_hdf5(comm::blocking("H5Aopen", H5Aopen, object, name.c_str(), H5P_DEFAULT), "{}", where));
  TypeId type(check_hdf5(comm::blocking("H5Aget_type", H5Aget_type, id), "{}", where));
  SpaceId space(check_hdf5(comm::blocking("H5Aget_space", H5Aget_space, id), "{}", where));
  return {std::move(id), std::move(type), std::move(space)};
}

std::vector<std::string> read_variable(hid_t attribute, hid_t type, std::size_t count) {
  std::vector<char*> found(count, nullptr);  // HDF5 allocates the texts; a text that was never written stays null
  const TypeId memory(check_hdf5(H5Tcopy(type), "HDF5 text type"));
  check_hdf5(comm::blocking("H5Aread", H5Aread, attribute, memory, found.data()), "reading an attribute");
  std::vector<std::string> texts;
  for (char* text : found) {
    texts.emplace_back(text == nullptr ? "" : text);
    H5free_memory(text);
  }
  return texts;
}

std::vector<std::string> read_fixed(hid_t attribute, hid_t type, std::size_t count) {
  const std::size_t size = H5Tget_size(type);
  std::vector<char> found(size * count);
  check_hdf5(comm::blocking("H5Aread", H5Aread, attribute, type, found.data()), "reading an attribute");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = found.begin() + std::ptrdiff_t(i * size);
    std::string text(begin, std::find(begin, begin + std::ptrdiff_t(size), '\0'));
    text.erase(text.find_last_not_of(' ') + 1);  // Fortran fills texts with spaces
    texts.push_back(text);
  }
  return texts;
}

/// The last part of an object's name: "sequence" for /group/sequence; "" if it has no name.
std::string last_name(hid_t object) {
  std::string path(std::size_t(std::max<ssize_t>(0, H5Iget_name(object, nullptr, 0))), '\0');
  H5Iget_name(object, path.data(), path.size() + 1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::vector<std::string> texts_of(hid_t object, const std::string& name) {
  const OpenAttribute found = open_attribute(object, name, name_of(object, name));
  if (!found.is_there() || H5Tget_class(found.type) != H5T_STRING) return {};
  const std::size_t count = found.count(object, name);
  if (count == 0) return {};
  const bool is_variable = H5Tis_variable_str(found.type) > 0;
  if (!is_variable && H5Tget_size(found.type) > most_text) {
    core::fail(core::ErrorKind::failure, "{} is text of {} bytes, expected at most {}", name_of(object, name),
               H5Tget_size(found.type), most_text);
  }
  return is_variable ? read_variable(found.id, found.type, count) : read_fixed(found.id, found.type, count);
}

std::vector<double> numbers_of(hid_t object, const std::string& name, const std::string& where) {
  const OpenAttribute found = open_attribute(object, name, where + ": " + name);
  if (!found.is_there()) return {};
  std::vector<double> numbers(found.count(object, name));
  const H5T_class_t kind = H5Tget_class(found.type);
  if (numbers.empty() || (kind != H5T_INTEGER && kind != H5T_FLOAT)) {
    core::fail(core::ErrorKind::failure, "{} has an attribute {} that holds {}, expected a number", where, name,
               numbers.empty() ? "nothing" : describe_type(found.type));
  }
  check_hdf5(comm::blocking("H5Aread", H5Aread, found.id, H5T_NATIVE_DOUBLE, numbers.data()), "{}: {}", where, name);
  return numbers;
}

std::vector<std::string> scale_names_of(hid_t dataset) {
  const char* const name = "DIMENSION_LIST";
  const OpenAttribute found = open_attribute(dataset, name, name_of(dataset, name));
  if (!found.is_there() || H5Tget_class(found.type) != H5T_VLEN) return {};
  const TypeId element(check_hdf5(H5Tget_super(found.type), "attribute {}", name));
  if (H5Tequal(element, H5T_STD_REF_OBJ) <= 0) return {};
  std::vector<VariableList> lists(found.count(dataset, name));
  if (lists.empty()) return {};
  check_hdf5(comm::blocking("H5Aread", H5Aread, found.id, found.type, lists.data()), "reading {}",
             name_of(dataset, name));
  std::vector<std::string> names;
  for (const VariableList& list : lists) {
    names.emplace_back();
    if (list.len == 0) continue;
    const ObjectId scale(comm::blocking("H5Rdereference2", H5Rdereference2, dataset, H5P_DEFAULT, H5R_OBJECT, list.p));
    if (scale >= 0) names.back() = last_name(scale);
  }
  comm::blocking("H5Dvlen_reclaim", H5Dvlen_reclaim, found.type, found.space, H5P_DEFAULT, lists.data());
  return names;
}

void add_attribute(hid_t object, const std::string& name, hid_t type, hid_t space, const void* value) {
  const AttributeId attribute(
      check_hdf5(comm::blocking("H5Acreate2", H5Acreate2, object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                 "attribute {}", name));
  check_hdf5(comm::blocking("H5Awrite", H5Awrite, attribute, type, value), "writing attribute {}", name);
}

void add_text(hid_t object, const std::string& name, const std::string& text) {
  const char* words = text.c_str();
  add_attribute(object, name, text_type(), SpaceId(check_hdf5(H5Screate(H5S_SCALAR), "HDF5 scalar")), &words);
}

}  // namespace annulus::store
