#include "annulus/report/sweep_table.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/atomic_file.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/store/json_text.hpp"
#include "annulus/store/sweep_parts.hpp"

namespace annulus::report {
namespace {

using core::ErrorKind;
using core::fail;
using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

store::DatasetId add_dataset(hid_t parent, const std::string& name, hid_t type, hid_t memory, hid_t space,
                             const void* data) {
  store::DatasetId dataset(store::check_hdf5(comm::blocking("H5Dcreate2", H5Dcreate2, parent, name.c_str(), type, space,
                                                            H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                             "dataset {}", name));
  store::check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
                    "writing {}", name);
  return dataset;
}

store::SpaceId line_of_entries(std::size_t count) { return store::space_of({Index(count)}); }

store::DatasetId add_column(hid_t group, const std::string& name, const std::vector<double>& values) {
  return add_dataset(group, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, line_of_entries(values.size()), values.data());
}
store::DatasetId add_column(hid_t group, const std::string& name, const std::vector<Index>& values) {
  return add_dataset(group, name, H5T_STD_I64LE, H5T_NATIVE_INT64, line_of_entries(values.size()), values.data());
}
store::DatasetId add_column(hid_t group, const std::string& name, const Texts& values) {
  const store::TypeId type = store::text_type();
  std::vector<const char*> pointers;
  for (const std::string& text : values) pointers.push_back(text.c_str());
  return add_dataset(group, name, type, type, line_of_entries(values.size()), pointers.data());
}

void add_cases(hid_t file, const SweepTable& table) {
  const store::GroupId group = store::make_group(file, "cases");
  const std::vector<Index> extents{Index(table.numbers.size())};
  std::vector<store::NamedAxes> axes{{"number", extents, "case"}};
  add_column(group, "number", table.numbers);
  for (const TableColumn& column : table.columns) {
    const store::DatasetId dataset =
        std::visit([&](const auto& values) { return add_column(group, column.name, values); }, column.values);
    if (!column.units.empty()) store::add_text(dataset, "units", column.units);
    axes.push_back({column.name, extents, "case"});
  }
  store::add_dimension_scales(group, axes);
}

/// An upper bound of the file's size. This space is reserved before HDF5 writes, because HDF5 cannot handle a full disk
/// (hdf5_support.cpp).
Index bytes_of(const SweepTable& table) {
  std::size_t bytes = (std::size_t(1) << 18) + table.identity.size() + table.records.size();
  for (const TableColumn& column : table.columns) {
    bytes += 4096 + 64 * table.numbers.size();
    if (const auto* texts = std::get_if<Texts>(&column.values)) {
      for (const std::string& text : *texts) bytes += 2 * text.size() + 64;
    }
  }
  for (const auto& [name, value] : table.provenance) bytes += 512 + name.size() + value.size();
  return Index(bytes);
}

void fill_hdf5(const store::AtomicFile& file, const SweepTable& table) {
  const std::string& path = file.unfinished().path();
  store::check_hdf5(store::create_alone(path).close(), "{}: closing failed", path);
  extend(file.descriptor(), path, bytes_of(table));  // when HDF5 closes the file, it cuts off the space it has not used
  store::FileId open = store::open_alone(path, true);
  for (const auto& [name, value] : table.attributes) store::add_text(open, name, value);
  add_cases(open, table);
  store::add_text_dataset(open, "sweep", table.identity);
  store::add_text_dataset(open, "records", table.records);
  const store::GroupId group = store::make_group(open, "provenance");
  for (const auto& [name, value] : table.provenance) store::add_text(group, name, value);
  store::check_hdf5(open.close(), "{}: closing failed", path);
}

Json cases_of(const SweepTable& table) {
  Json cases = Json::array();
  for (std::size_t i = 0; i < table.numbers.size(); ++i) {
    Json one = Json::object();
    one["number"] = table.numbers[i];
    for (const TableColumn& column : table.columns) {
      std::visit([&](const auto& values) { one[column.name] = values[i]; }, column.values);
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::string json_of(const SweepTable& table) {
  Json json = Json::object();
  json["annulus_sweep"] = table.identity;
  for (const auto& [name, value] : table.provenance) json["provenance"][name] = value;
  for (const TableColumn& column : table.columns) {
    if (!column.units.empty()) json["units"][column.name] = column.units;
  }
  json["cases"] = cases_of(table);
  return store::text_of(json, 2) + "\n";
}

/// Returns the content of a JSON file. If the file does not exist, or is not JSON, returns a value that is no object.
Json read_json(const std::string& json) {
  const comm::BlockingScope inside("the reading of " + json);
  std::ifstream file(json, std::ios::binary);
  return store::parse_json({std::istreambuf_iterator<char>(file), {}});
}

/// The text of "cases" in the JSON file of a sweep; empty if there is none.
std::string cases_in(const std::string& json) {
  const Json all = read_json(json);
  return all.is_object() && all.contains("cases") ? store::text_of(all["cases"], 2) : "";
}

}  // namespace

void check_tables_can_be_made(const std::string& file, const std::string& json, const std::string& identity) {
  store::check_can_be_made(runfile::follow_links(file), true);
  if (json.empty()) return;
  const std::string path = runfile::follow_links(json);
  store::check_can_be_made(path, true);
  if (!store::exists(path)) return;
  const Json made = read_json(path);
  if (!made.is_object() || !made.contains("annulus_sweep") || !made["annulus_sweep"].is_string()) {
    fail(ErrorKind::failure, "{}: exists already and is no table of annulus bench; give bench.json another name", path);
  }
  store::check_same_sweep("bench.json", path, made["annulus_sweep"], identity);
}

EarlierTable read_sweep_table(const std::string& file) {
  if (!store::exists(file)) return {};
  try {
    return {store::read_text_dataset(file, "/sweep"), store::read_text_dataset(file, "/records")};
  } catch (const core::Error& error) {
    fail(ErrorKind::failure, "{}: exists already and is no table of annulus bench ({}); give bench.file another name",
         file, error.what());
  }
}

bool tables_have_cases(const std::string& file, const std::string& json, const SweepTable& table) {
  // Looks at both files, because one file may be older than the other: a launch may have ended after it wrote the first
  // file, or two launches may have written at the same time.
  return read_sweep_table(file).records == table.records &&
         (json.empty() || cases_in(json) == store::text_of(cases_of(table), 2));
}

void write_sweep_table(const std::string& file, const std::string& json, const SweepTable& table) {
  check_tables_can_be_made(file, json, table.identity);
  const comm::BlockingScope inside("the making of " + file);
  store::AtomicFile made(file, true);
  fill_hdf5(made, table);
  made.publish();
  if (json.empty()) return;
  store::AtomicFile text(json, true);
  text.write(json_of(table));
  text.publish();
}

}  // namespace annulus::report
