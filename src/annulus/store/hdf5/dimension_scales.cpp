
#include <map>
#include <sstream>

#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {
namespace {

/// netCDF writes this text, followed by the axis' length, into the attribute NAME of an axis without coordinates.
/// Programs that read netCDF look for this text, with its full stop, and then show an axis and no variable.
constexpr const char* bare_scale = "This is a netCDF dimension but not a netCDF variable.";

/// An element of the attribute REFERENCE_LIST, as HDF5's specification of dimension scales defines it. We do not use
/// H5DSattach_scale(), because its library (libhdf5_hl) is not built everywhere, and because the function would write
/// the whole list again for every dataset.
struct Attachment {
  hobj_ref_t dataset;
  int axis;
  int gap = 0;  // padding, which must be the same in every file, because HDF5 writes these bytes, too
};

struct Scale {
  Index length = 0;
  std::vector<Attachment> attachments;
};

/// The group in a dataset's path: "backward/" for "backward/kept", "" for "kept".
std::string group_of(const std::string& dataset) { return dataset.substr(0, dataset.rfind('/') + 1); }

hobj_ref_t reference_to(hid_t parent, const std::string& name) {
  hobj_ref_t reference{};
  check_hdf5(
      comm::blocking("H5Rcreate", H5Rcreate, &reference, parent, name.c_str(), H5R_OBJECT, hid_t(H5I_INVALID_HID)),
      "reference to {}", name);
  return reference;
}

/// Adds a text of fixed length, because HDF5 and netCDF accept no other form for the attributes CLASS and NAME.
void add_fixed_text(hid_t object, const char* name, const std::string& text) {
  const TypeId type(check_hdf5(H5Tcopy(H5T_C_S1), "HDF5 text type"));
  check_hdf5(H5Tset_size(type, text.size() + 1), "HDF5 text type");
  add_attribute(object, name, type, SpaceId(H5Screate(H5S_SCALAR)), text.c_str());
}

TypeId attachment_type() {
  TypeId type(check_hdf5(H5Tcreate(H5T_COMPOUND, sizeof(Attachment)), "HDF5 compound type"));
  check_hdf5(H5Tinsert(type, "dataset", HOFFSET(Attachment, dataset), H5T_STD_REF_OBJ), "HDF5 compound type");
  check_hdf5(H5Tinsert(type, "dimension", HOFFSET(Attachment, axis), H5T_NATIVE_INT), "HDF5 compound type");
  return type;
}

void make_scale(hid_t parent, const std::string& name, const Scale& scale) {
  // Reserves space that is never written, so that the scale reads as zeros. Otherwise h5diff could not compare files.
  const DatasetId dataset = make_dataset(parent, name, H5T_STD_I8LE, space_of({scale.length}));
  add_fixed_text(dataset, "CLASS", "DIMENSION_SCALE");
  add_fixed_text(dataset, "NAME", fmt::format("{}{:10}", bare_scale, scale.length));
  add_attribute(dataset, "REFERENCE_LIST", attachment_type(), space_of({Index(scale.attachments.size())}),
                scale.attachments.data());
}

/// Attaches scales to a dataset. `scales` has one reference to a scale for each axis.
void attach(hid_t parent, const std::string& dataset, std::vector<hobj_ref_t> scales) {
  std::vector<VariableList> lists;  // HDF5 would allow several scales for an axis; we write one
  for (hobj_ref_t& scale : scales) lists.push_back({{1, &scale}});
  const TypeId type(check_hdf5(H5Tvlen_create(H5T_STD_REF_OBJ), "HDF5 list type"));
  const DatasetId object(
      check_hdf5(comm::blocking("H5Dopen2", H5Dopen2, parent, dataset.c_str(), H5P_DEFAULT), "dataset {}", dataset));
  add_attribute(object, "DIMENSION_LIST", type, space_of({Index(lists.size())}), lists.data());
}

}  // namespace

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void add_dimension_scales(hid_t parent, const std::vector<NamedAxes>& datasets) {
  std::map<std::string, Scale> scales;  // sorted by name, so that files with the same datasets are equal
  for (const NamedAxes& dataset : datasets) {
    const std::vector<std::string> names = words_of(dataset.names);
    core::require(names.size() == dataset.extents.size(), [&] { return "names of the axes of " + dataset.dataset; });
    const hobj_ref_t reference = reference_to(parent, dataset.dataset);
    for (std::size_t axis = 0; axis < names.size(); ++axis) {
      const std::string name = group_of(dataset.dataset) + names[axis];
      Scale& scale = scales.try_emplace(name, Scale{dataset.extents[axis], {}}).first->second;
      core::require(scale.length == dataset.extents[axis],
                    [&] { return fmt::format("axis {} of {} has two lengths", name, dataset.dataset); });
      scale.attachments.push_back({reference, int(axis)});
    }
  }
  for (const auto& [name, scale] : scales) make_scale(parent, name, scale);
  for (const NamedAxes& dataset : datasets) {
    std::vector<hobj_ref_t> references;
    for (const std::string& name : words_of(dataset.names)) {
      references.push_back(reference_to(parent, group_of(dataset.dataset) + name));
    }
    attach(parent, dataset.dataset, std::move(references));
  }
}

bool is_bare_scale(hid_t object) {
  const std::vector<std::string> name = texts_of(object, "NAME");
  return !name.empty() && name.front().starts_with(bare_scale);
}

}  // namespace annulus::store
