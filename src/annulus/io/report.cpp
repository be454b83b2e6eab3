#include "annulus/io/report.hpp"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/io/place.hpp"

namespace annulus::io {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<ReportEntry>& entries);

struct ValueToJson {
  Json operator()(const std::vector<ReportEntry>& group) const { return to_json(group); }
  template <class Value>
  Json operator()(const Value& value) const {
    return value;  // NaN and infinity are written as null: JSON has no word for them
  }
};

Json to_json(const std::vector<ReportEntry>& entries) {
  Json object = Json::object();
  for (const ReportEntry& entry : entries) object[entry.name] = std::visit(ValueToJson(), entry.value);
  return object;
}

}  // namespace

void check_report_place(const std::string& path) { check_place(path, true); }

void write_report(const std::string& path, const std::vector<ReportEntry>& entries) {
  const comm::Blocked inside("the writing of " + path);
  check_report_place(path);
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  try {
    // Text that is no UTF-8 (a host or file name) must not lose the report.
    const std::string text = to_json(entries).dump(2, ' ', false, Json::error_handler_t::replace);
    std::ofstream file(temporary);
    file << text << "\n";
    file.close();
    if (!file) core::fail(core::ErrorKind::failure, "{}: writing the report failed", path);
    flush_to_disk(temporary);
    publish(temporary, path, true);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

}  // namespace annulus::io
