#include "annulus/report/json_report.hpp"

#include <nlohmann/json.hpp>

namespace annulus::report {
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

void write_report(store::AtomicFile& file, const std::vector<ReportEntry>& entries) {
  // Text that is no UTF-8 (a host or file name) must not lose the report.
  file.write(to_json(entries).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.publish();
}

}  // namespace annulus::report
