#include "annulus/report/text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

namespace annulus::report {

std::string distinct(const std::vector<std::string>& words) {
  std::set<std::string> seen;
  std::string text;
  for (const std::string& word : words) {
    if (!seen.insert(word).second) continue;
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

void print_line(std::string_view name, std::string_view text, int width) {
  fmt::print("  {:<{}} {}\n", name, width, text);
}

void write_report(store::AtomicFile& file, const Json& report) {
  // A text that is not UTF-8 (a host or file name) must not make the report fail.
  file.write(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.publish();
}

}  // namespace annulus::report
