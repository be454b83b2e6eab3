#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "annulus/core/error.hpp"
#include "annulus/core/types.hpp"
#include "annulus/report/text.hpp"
#include "support/file_size_limit.hpp"
#include "support/scratch.hpp"

namespace annulus::report {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_report_to(const std::string& path, const Json& report) {
  store::AtomicFile file(path, true);
  write_report(file, report);
}

TEST(Report, KeepsTheOrderAndTheTypes) {
  const test::ScratchFolder folder;
  const std::string path = folder / "report.json";
  write_report_to(path, {{"strategy", "ring"},
                         {"causal", true},
                         {"ranks", core::Index(4)},
                         {"bytes", core::Index(1) << 53},
                         {"seconds", 0.1},
                         {"lowest", -INFINITY},
                         {"per_rank", std::vector<double>{1, 2.5}},
                         {"input", {{"rows", core::Index(7)}, {"name", "\xff\""}}}});
  EXPECT_EQ(content_of(path), R"({
  "strategy": "ring",
  "causal": true,
  "ranks": 4,
  "bytes": 9007199254740992,
  "seconds": 0.1,
  "lowest": null,
  "per_rank": [
    1.0,
    2.5
  ],
  "input": {
    "rows": 7,
    "name": ")"
                              "\xef\xbf\xbd"
                              R"(\""
  }
}
)");
  write_report_to(path, Json::object());  // an older report is replaced
  EXPECT_EQ(content_of(path), "{}\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // nothing temporary is left
}

TEST(Report, AFailedWriteLeavesTheOlderReport) {
  const test::ScratchFolder folder;
  const std::string path = folder / "report.json";
  write_report_to(path, {{"ranks", core::Index(2)}});
  const std::string before = content_of(path);
  try {
    const test::FileSizeLimit limit(20);
    write_report_to(path, {{"text", std::string(100, 'x')}});
    ADD_FAILURE() << "written beyond the limit";
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ": writing failed: File too large");
  }
  EXPECT_EQ(content_of(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace annulus::report
