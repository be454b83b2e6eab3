#include "annulus/report/json_report.hpp"

#include <nlohmann/json.hpp>

namespace annulus::report {

void write_report(store::AtomicFile& file, const Json& report) {
  // Text that is no UTF-8 (a host or file name) must not lose the report.
  file.write(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.publish();
}

}  // namespace annulus::report
