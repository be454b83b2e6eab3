#include "annulus/store/hdf5/dataset_storage.hpp"

#include <algorithm>

#include "annulus/store/hdf5/attributes.hpp"

namespace annulus::store {

void refuse_packed(hid_t dataset, const std::string& where) {
  const std::pair<const char*, double> attributes[] = {{"scale_factor", 1}, {"add_offset", 0}};  // the neutral values
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

/// True if the dataset holds no numbers, and only names the other files or datasets that hold them.
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
  const std::vector<Index> extents = extents_of(dataset, where);
  if (extents == info.extents && number_type_of(type) == info.type) return;
  core::fail(core::ErrorKind::failure, "{} is {} ({}), it was {} ({}) when the run looked at it first", where,
             describe_type(type), fmt::join(extents, ", "), name_of(info.type), fmt::join(info.extents, ", "));
}

}  // namespace annulus::store
