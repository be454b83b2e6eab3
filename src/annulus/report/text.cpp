#include "annulus/report/text.hpp"

#include <fmt/format.h>

#include <set>

#include "annulus/core/print.hpp"
#include "annulus/store/json_text.hpp"

namespace annulus::report {

std::string distinct(const std::vector<std::string>& words) {
  std::set<std::string> seen;
  std::string text;
  for (const std::string& word : words) {
    if (seen.insert(word).second) text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

void print_line(std::string_view name, std::string_view text, int width) {
  core::print("  {:<{}} {}\n", name, width, text);
}

void write_report(store::AtomicFile& file, const Json& report) {
  file.write(store::text_of(report, 2) + "\n");
  file.publish();
}

}  // namespace annulus::report
