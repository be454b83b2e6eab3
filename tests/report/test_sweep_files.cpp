// Files that launches of a sweep leave on disk: part files, of which whole lines survive a cut, and the table.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "annulus/core/error.hpp"
#include "annulus/report/sweep_table.hpp"
#include "annulus/store/sweep_parts.hpp"
#include "end_to_end/results.hpp"
#include "support/file_size_limit.hpp"
#include "support/scratch.hpp"

namespace annulus::report {
namespace {

const std::string identity = "bench.repeats: 5\nbench.sweep: [{a.b: [1, 2]}]\n";

store::CaseRecord record(Index number, double seconds = 0.5) {
  return {number,
          {{"attention_seconds_min", seconds}, {"error_out", std::numeric_limits<double>::quiet_NaN()}},
          {{"status", "ok"}, {"hosts", "n1, \"n2\"\n\xff"}}};
}

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::failure);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class SweepFiles : public testing::Test {
 protected:
  std::vector<Index> numbers() const {
    std::vector<Index> all;
    for (const store::CaseRecord& one : store::read_parts(table, identity).records) all.push_back(one.number);
    std::sort(all.begin(), all.end());
    return all;
  }
  std::string only_part() const {
    for (const auto& entry : std::filesystem::directory_iterator(store::folder_of_parts(table)))
      return entry.path().string();
    return "";
  }
  test::ScratchFolder scratch;
  const std::string table = scratch / "sweep.h5";
};

TEST_F(SweepFiles, ALineTellsARecordToTheLastBit) {
  const store::CaseRecord before = record(7, 0.1 + 0.2);
  const std::string line = store::line_of(before);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const store::CaseRecord after = store::record_of(line).value();
  EXPECT_EQ(after.number, 7);
  EXPECT_EQ(after.number_in("attention_seconds_min"), 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(after.number_in("error_out")));
  EXPECT_TRUE(std::isnan(after.number_in("no_such_column")));
  EXPECT_EQ(after.word_in("status"), "ok");
  EXPECT_EQ(store::line_of(after), line);
  for (const char* no : {"", "{", "[]", "{\"case\": \"x\"}", "null"}) EXPECT_FALSE(store::record_of(no)) << no;
}

TEST_F(SweepFiles, ALaunchAppendsToItsOwnFile) {
  store::LaunchFile a(table, identity), b(table, identity), idle(table, identity);
  EXPECT_EQ(numbers(), std::vector<Index>());
  a.append(record(0));
  b.append(record(1));
  const std::string before = store::state_of_parts(table);
  a.append(record(2));
  EXPECT_NE(store::state_of_parts(table), before);
  EXPECT_EQ(store::read_parts(table, identity).state, store::state_of_parts(table));
  EXPECT_EQ(numbers(), (std::vector<Index>{0, 1, 2}));
  const auto files = std::distance(std::filesystem::directory_iterator(store::folder_of_parts(table)), {});
  EXPECT_EQ(files, 2) << "a launch without a finished case leaves no file";
}

TEST_F(SweepFiles, ACutOffLineIsNone) {
  store::LaunchFile part(table, identity);
  for (Index i = 0; i < 3; ++i) part.append(record(i));
  const std::string path = only_part(), whole = slurp(path);
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1, head = whole.find('\n') + 1;
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, bytes);
    const store::Parts parts = store::read_parts(table, identity);
    const auto lines = std::count(whole.begin(), whole.begin() + std::ptrdiff_t(bytes), '\n');
    EXPECT_EQ(Index(parts.records.size()), std::max<Index>(0, lines - 1)) << bytes << " bytes";
  }
  EXPECT_LT(head, last);
}

TEST_F(SweepFiles, PartsOfAnotherSweepAreRefusedWithTheDifference) {
  store::LaunchFile(table, "bench.repeats: 7\nbench.sweep: [{a.b: [1, 2]}]\n").append(record(0));
  const std::string says = error_of([&] { store::read_parts(table, identity); });
  EXPECT_NE(says.find("belongs to another sweep: bench.repeats: 7 -> 5"), std::string::npos) << says;
  EXPECT_NE(says.find(".part/"), std::string::npos) << says;
}

TEST_F(SweepFiles, ForeignFilesInTheFolder) {
  store::LaunchFile(table, identity).append(record(0));
  std::ofstream(store::folder_of_parts(table) + "/notes.txt") << "mine\n";
  EXPECT_EQ(numbers(), std::vector<Index>{0});
  std::ofstream(store::folder_of_parts(table) + "/x.jsonl") << "{\"a\": 1}\n";
  EXPECT_NE(error_of([&] { numbers(); }).find("x.jsonl: is no part of a sweep"), std::string::npos);
}

TEST_F(SweepFiles, AFullDiskKeepsWhatIsThere) {
  store::LaunchFile part(table, identity);
  part.append(record(0));
  const std::string before = slurp(only_part());
  {
    const test::FileSizeLimit limit(before.size() + 10);
    const std::string says = error_of([&] { part.append(record(1)); });
    EXPECT_NE(says.find("File too large; finished cases are kept, run again to continue"), std::string::npos) << says;
  }
  EXPECT_EQ(slurp(only_part()), before);
  part.append(record(1));
  EXPECT_EQ(numbers(), (std::vector<Index>{0, 1}));
}

TEST_F(SweepFiles, AFullDiskLeavesNoFileWithoutAHead) {
  store::LaunchFile part(table, identity);
  {
    const test::FileSizeLimit limit(10);
    EXPECT_NE(error_of([&] { part.append(record(0)); }).find("File too large"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_empty(store::folder_of_parts(table)));
  part.append(record(1));
  EXPECT_EQ(numbers(), std::vector<Index>{1});
}

TEST_F(SweepFiles, AFolderThatCannotBeMadeIsNamed) {
  store::LaunchFile part(scratch / "absent/sweep.h5", identity);
  EXPECT_NE(error_of([&] { part.append(record(0)); }).find("does not exist"), std::string::npos);
  std::ofstream(store::folder_of_parts(table)) << "a file";
  store::LaunchFile other(table, identity);
  EXPECT_NE(error_of([&] { other.append(record(0)); }).find("sweep.h5.part"), std::string::npos);
}

SweepTable example() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {{0, 1},
          {{"attention_seconds_min", "s", std::vector<double>{0.5, nan}},
           {"ranks", "", std::vector<Index>{2, 4}},
           {"distribution.strategy", "", std::vector<std::string>{"ring", "rotation"}}},
          identity,
          store::line_of(record(0)) + "\n",
          {{"version", "1"}},
          {{"title", "a sweep"}, {"version", "2"}}};
}

TEST_F(SweepFiles, TheTableIsColumnsOfCases) {
  write_sweep_table(table, scratch / "sweep.json", example());
  EXPECT_EQ(test::numbers(table, "/cases/number"), (std::vector<double>{0, 1}));
  EXPECT_EQ(test::numbers(table, "/cases/attention_seconds_min")[0], 0.5);
  EXPECT_TRUE(std::isnan(test::numbers(table, "/cases/attention_seconds_min")[1]));
  EXPECT_EQ(test::numbers(table, "/cases/ranks"), (std::vector<double>{2, 4}));
  EXPECT_EQ(test::text_attribute(table, "/", "title"), "a sweep");
  EXPECT_EQ(test::text_attribute(table, "/", "version"), "2");
  const EarlierTable back = read_sweep_table(table);
  EXPECT_EQ(back.identity, identity);
  EXPECT_EQ(back.records, example().records);
  const auto json = nlohmann::json::parse(slurp(scratch / "sweep.json"));
  EXPECT_EQ(json["cases"][1]["distribution.strategy"], "rotation");
  EXPECT_TRUE(json["cases"][1]["attention_seconds_min"].is_null());
  EXPECT_EQ(json["units"]["attention_seconds_min"], "s");
  EXPECT_EQ(json["provenance"]["version"], "1");
}

TEST_F(SweepFiles, OnlyTablesAreReplaced) {
  const std::string json = scratch / "sweep.json";
  write_sweep_table(table, json, example());
  write_sweep_table(table, json, example());
  check_tables_can_be_made(table, json, identity);
  EXPECT_NE(error_of([&] {
              check_tables_can_be_made(table, json, "bench.repeats: 7\n");
            }).find("sweep.json: belongs to another sweep: bench.repeats: 5 -> 7"),
            std::string::npos);
  std::ofstream(json, std::ios::trunc) << "{\"precious\": 1}\n";
  EXPECT_NE(error_of([&] { check_tables_can_be_made(table, json, identity); }).find("is no table of annulus bench"),
            std::string::npos);
  EXPECT_EQ(slurp(json), "{\"precious\": 1}\n");
  std::ofstream(table, std::ios::trunc) << "no HDF5";
  EXPECT_NE(error_of([&] { read_sweep_table(table); }).find("is no table of annulus bench"), std::string::npos);
  EXPECT_EQ(read_sweep_table(scratch / "absent.h5").identity, "");
  EXPECT_NE(error_of([&] { check_tables_can_be_made(scratch / "absent/s.h5", "", ""); }).find("does not exist"),
            std::string::npos);
}

TEST_F(SweepFiles, AFullDiskLeavesTheTableBefore) {
  write_sweep_table(table, "", example());
  const auto bytes = std::filesystem::file_size(table);
  {
    const test::FileSizeLimit limit(4096);
    EXPECT_NE(error_of([&] { write_sweep_table(table, "", example()); }).find("no room"), std::string::npos);
  }
  EXPECT_EQ(std::filesystem::file_size(table), bytes);
  EXPECT_EQ(read_sweep_table(table).identity, identity);
}

}  // namespace
}  // namespace annulus::report
