#include "annulus/store/hdf5/dataset_storage.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "annulus/store/finite.hpp"
#include "annulus/store/hdf5/attributes.hpp"

namespace annulus::store {

void refuse_packed(hid_t dataset, const std::string& where) {
  const std::pair<const char*, double> attributes[] = {{"scale_factor", 1}, {"add_offset", 0}};  // these change nothing
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

/// The value that HDF5 returns for a number that was never written. Empty if HDF5 leaves the memory for that number as
/// it was.
std::optional<double> fill_value_of(hid_t creation, const std::string& where) {
  H5D_fill_value_t defined = H5D_FILL_VALUE_ERROR;
  H5D_fill_time_t time = H5D_FILL_TIME_ERROR;
  check_hdf5(H5Pfill_value_defined(creation, &defined), "{}", where);
  check_hdf5(H5Pget_fill_time(creation, &time), "{}", where);
  if (defined == H5D_FILL_VALUE_UNDEFINED || time == H5D_FILL_TIME_NEVER) return std::nullopt;
  double value = 0;
  if (defined == H5D_FILL_VALUE_USER_DEFINED)
    check_hdf5(H5Pget_fill_value(creation, H5T_NATIVE_DOUBLE, &value), "{}: its fill value", where);
  return value;
}

#if H5_VERSION_GE(1, 10, 6)  // earlier versions cannot count chunks, or unite selections

hsize_t product(const std::vector<hsize_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), hsize_t(1), std::multiplies<>());
}

/// Counts the numbers of a virtual dataset that have a source. Counts all numbers of the dataset if a source is for the
/// whole dataset, or for single points.
hsize_t mapped_numbers(hid_t creation, const std::vector<hsize_t>& extents, const std::string& where) {
  const std::vector<hsize_t> zeros(extents.size()), ones(extents.size(), 1);
  std::size_t count = 0;
  check_hdf5(H5Pget_virtual_count(creation, &count), "{}", where);
  std::vector<SpaceId> parts;
  for (std::size_t i = 0; i < count; ++i) {
    SpaceId one(check_hdf5(H5Pget_virtual_vspace(creation, i), "{}", where));
    const H5S_sel_type type = H5Sget_select_type(one);
    if (type == H5S_SEL_ALL || type == H5S_SEL_POINTS) return product(extents);  // HDF5 cannot unite points
    if (hsize_t(H5Sget_select_npoints(one)) == H5S_UNLIMITED) {  // keeps the part of the selection inside the extents
      std::vector<hsize_t> start(zeros), stride(zeros), blocks(zeros), block(zeros);
      check_hdf5(H5Sget_regular_hyperslab(one, start.data(), stride.data(), blocks.data(), block.data()), "{}", where);
      one = SpaceId(check_hdf5(H5Screate_simple(int(extents.size()), extents.data(), nullptr), "{}", where));
      check_hdf5(H5Sselect_hyperslab(one, H5S_SELECT_SET, zeros.data(), nullptr, ones.data(), extents.data()), "{}",
                 where);
      check_hdf5(H5Sselect_hyperslab(one, H5S_SELECT_AND, start.data(), stride.data(), blocks.data(), block.data()),
                 "{}", where);
    }
    if (H5Sget_select_type(one) != H5S_SEL_HYPERSLABS) continue;  // no part of the selection is inside
    parts.push_back(std::move(one));
  }
  // Unites pairs of parts, then pairs of the results, because uniting 10,000 parts one by one would take seconds.
  for (std::size_t step = 1; step < parts.size(); step *= 2) {
    for (std::size_t i = 0; i + step < parts.size(); i += 2 * step) {
      check_hdf5(H5Smodify_select(parts[i], H5S_SELECT_OR, parts[i + step]), "{}", where);
    }
  }
  return parts.empty() ? 0 : hsize_t(H5Sget_select_npoints(parts.front()));
}

/// Says which part of a dataset was never written: "lacks 2 of its 8 chunks (never written)"; empty if all was written.
std::string unwritten_part(hid_t dataset, hid_t creation, const std::string& where) {
  const bool is_virtual = H5Pget_layout(creation) == H5D_VIRTUAL;
  if (!is_virtual && H5Pget_layout(creation) != H5D_CHUNKED) return "";
  const std::vector<Index> found = extents_of(dataset, where);
  const std::vector<hsize_t> extents(found.begin(), found.end());
  hsize_t there = 0;
  if (is_virtual) {
    const hsize_t all = product(extents);
    there = std::min(all, mapped_numbers(creation, extents, where));
    return there == all ? "" : fmt::format("has no source for {} of its {} numbers", all - there, all);
  }
  std::vector<hsize_t> chunks(extents.size());
  check_hdf5(H5Pget_chunk(creation, int(chunks.size()), chunks.data()), "{}", where);
  for (std::size_t axis = 0; axis < chunks.size(); ++axis) chunks[axis] = (extents[axis] - 1) / chunks[axis] + 1;
  const SpaceId space(check_hdf5(H5Dget_space(dataset), "{}", where));
  check_hdf5(comm::blocking("H5Dget_num_chunks", H5Dget_num_chunks, dataset, hid_t(space), &there), "{}", where);
  const hsize_t all = product(chunks);
  return there >= all ? "" : fmt::format("lacks {} of its {} chunks (never written)", all - there, all);
}

#else

std::string unwritten_part(hid_t, hid_t, const std::string&) { return ""; }

#endif

}  // namespace

std::string described_gaps(hid_t dataset, const std::string& where, const std::string& subject, bool may_be_unread) {
  const PropertyId creation = creation_of(dataset, where);
  const std::vector<Index> extents = extents_of(dataset, where);
  if (std::count(extents.begin(), extents.end(), 0) > 0) return "";
  const std::string gaps = unwritten_part(dataset, creation, where);
  if (gaps.empty()) return "";
  const std::optional<double> fill = fill_value_of(creation, where);
  const std::string value = !fill        ? "whatever is in memory"
                            : *fill == 0 ? "0"
                                         : fmt::format("its fill value, {}", *fill);
  const std::string text = fmt::format("{} {}: HDF5 reads them as {}", subject, gaps, value);
  if (may_be_unread || (fill && *fill == 0)) return text;
  fail(core::ErrorKind::failure, "{}; expected a dataset that is written completely", text);
}

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
  // netCDF fills what was never written. Its usual fill value is in no attribute, but only in an HDF5 property.
  if (fill_value_of(creation_of(dataset, where), where) == netcdf_fill) found.push_back({by_netcdf, netcdf_fill});
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
