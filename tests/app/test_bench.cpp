// Parts of `annulus bench`, called without the program: which task measures which cases, groups of cases, the table.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "annulus/app/bench/rounds.hpp"
#include "annulus/core/error.hpp"
#include "annulus/store/sweep_parts.hpp"

namespace annulus::app {
namespace {

std::vector<runfile::BenchCase> cases(const std::string& sweep) {
  return runfile::bench_file_of(
             runfile::parse_run_file_tree("bench: {file: s.h5, sweep: " + sweep + "}\n", "/run.yaml", {}))
      .cases;
}

ArrayTask task(const std::map<std::string, std::string>& variables) {
  return array_task([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ArrayTask, IsCountedFromTheFirst) {
  EXPECT_EQ(task({}).count, 1);
  const auto of = [](const char* id, const char* count, const char* least, const char* step = "1") {
    return task({{"SLURM_ARRAY_TASK_ID", id},
                 {"SLURM_ARRAY_TASK_COUNT", count},
                 {"SLURM_ARRAY_TASK_MIN", least},
                 {"SLURM_ARRAY_TASK_STEP", step}});
  };
  EXPECT_EQ(of("0", "4", "0").number, 0);
  EXPECT_EQ(of("3", "4", "0").number, 3);
  EXPECT_EQ(of("16", "4", "10", "3").number, 2);
  EXPECT_EQ(of("7", "1", "7").number, 0);
  EXPECT_EQ(of("7", "1", "7").count, 1);
  for (const char* id : {"6", "9", "0"}) EXPECT_THROW(of(id, "3", "1"), core::Error) << id;
  EXPECT_THROW(of("11", "4", "10", "3"), core::Error);
}

TEST(ArrayTask, AVariableThatIsNoNumberIsAnError) {
  const std::map<std::string, std::string> right{{"SLURM_ARRAY_TASK_ID", "4"},
                                                 {"SLURM_ARRAY_TASK_COUNT", "3"},
                                                 {"SLURM_ARRAY_TASK_MIN", "2"},
                                                 {"SLURM_ARRAY_TASK_STEP", "1"}};
  EXPECT_EQ(task(right).number, 2);
  for (const auto& [name, text] : right) {
    for (const char* wrong : {"x", "-1", "1e3", "2 "}) {
      auto variables = right;
      variables[name] = wrong;
      try {
        task(variables);
        ADD_FAILURE() << name << " '" << wrong << "' was taken";
      } catch (const core::Error& error) {
        EXPECT_EQ(error.kind(), core::ErrorKind::usage);
        EXPECT_NE(std::string(error.what()).find(name + " is '" + wrong + "'"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_EQ(task({{"SLURM_ARRAY_TASK_ID", ""}, {"SLURM_ARRAY_TASK_COUNT", ""}}).count, 1);
}

TEST(Share, EveryCaseBelongsToOneTask) {
  const auto all = cases("[{attention.causal: [true, false]}, {input.generate.sequence: {from: 1, to: 7, step: 1}}]");
  for (const Index count : {1, 2, 3, 5, 14, 20}) {
    for (const runfile::BenchCase& one : all) {
      Index owners = 0;
      for (Index i = 0; i < count; ++i) owners += belongs(one, {1, 1, {i, count}}) ? 1 : 0;
      EXPECT_EQ(owners, 1) << one.name() << " of " << count;
    }
  }
}

TEST(Share, CasesWaitForTheirRanksAndThreads) {
  const auto all = cases("[{ranks: [1, +2]}, {threads: [1, 4]}]");
  const auto mine = [&](Index ranks, Index threads) {
    std::vector<Index> numbers;
    for (const auto& one : all) {
      if (belongs(one, {ranks, threads, {}})) numbers.push_back(one.number);
    }
    return numbers;
  };
  EXPECT_EQ(mine(1, 1), std::vector<Index>{0});
  EXPECT_EQ(mine(1, 4), std::vector<Index>{1});
  EXPECT_EQ(mine(2, 4), std::vector<Index>{3});
  EXPECT_EQ(mine(3, 4), std::vector<Index>{});
}

std::vector<std::size_t> sizes(const std::vector<PlannedCase>& planned, Index runs, const GroupLimits& limits) {
  std::vector<std::size_t> all;
  const PlannedCase* next = planned.data();
  for (const auto& group : groups_of(planned, runs, limits)) {
    all.push_back(group.size());
    for (const PlannedCase& one : group) EXPECT_EQ(one.bytes, (next++)->bytes) << "the order stays";
  }
  return all;
}

TEST(Groups, TakeAboutAMinute) {
  using Sizes = std::vector<std::size_t>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  GroupLimits limits{.seconds = 60, .cases = 3, .bytes = 100};
  EXPECT_EQ(sizes({}, 6, limits), Sizes{});
  EXPECT_EQ(sizes({{nullptr, 1, 1}, {nullptr, 1, 2}, {nullptr, 1, 3}, {nullptr, 1, 4}}, 6, limits), (Sizes{3, 1}));
  EXPECT_EQ(sizes({{nullptr, 4, 1}, {nullptr, 6, 2}, {nullptr, 1, 3}}, 6, limits), (Sizes{2, 1})) << "24 + 36 s";
  EXPECT_EQ(sizes({{nullptr, 100, 1}, {nullptr, 1, 2}, {nullptr, 1, 3}}, 6, limits), (Sizes{1, 2}));
  EXPECT_EQ(sizes({{nullptr, 1, 60}, {nullptr, 1, 40}, {nullptr, 1, 1}}, 6, limits), (Sizes{2, 1}));
  EXPECT_EQ(sizes({{nullptr, nan, 1}, {nullptr, nan, 2}}, 40, limits), (Sizes{1, 1})) << "nan counts as 1 s";
}

store::CaseRecord measured(Index number, const char* status, const char* date, double seconds = 1) {
  return {number, {{"attention_seconds_median", seconds}}, {{"status", status}, {"date", date}}};
}

TEST(Records, OneOfEachCaseCounts) {
  const auto all = cases("[{input.generate.sequence: [8, 16, 32]}]");
  const auto best = best_records({measured(0, "failed", "1"), measured(0, "ok", "3", 3), measured(0, "wrong", "2", 2),
                                  measured(2, "failed", "1"), measured(7, "ok", "1")},
                                 all);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0]->number_in("attention_seconds_median"), 2) << "the earliest measurement";
  EXPECT_FALSE(best[1]);
  EXPECT_FALSE(is_measured(*best[2]));
  // Part files are read in any order, so the order of the records must not matter.
  const auto again = best_records({measured(0, "wrong", "2", 2), measured(0, "ok", "3", 3)}, all);
  EXPECT_EQ(again[0]->number_in("attention_seconds_median"), 2);
}

TEST(Records, ALaunchNoticesThatItsFileIsGone) {
  std::string scratch = (std::filesystem::temp_directory_path() / "annulus-XXXXXX").string();
  ASSERT_NE(mkdtemp(scratch.data()), nullptr);
  const std::string table = scratch + "/s.h5", part = store::folder_of_parts(table), other = scratch + "/other";
  store::LaunchFile file(table, "bench.repeats: 1");
  EXPECT_NO_THROW(file.check_is_there()) << "no case has begun";
  file.begin({0});
  EXPECT_NO_THROW(file.check_is_there());
  std::filesystem::rename(part, other);
  EXPECT_THROW(file.check_is_there(), core::Error);
  EXPECT_THROW(file.append({0, {}, {}}), core::Error);
  std::filesystem::rename(other, part);
  EXPECT_NO_THROW(file.append({0, {}, {}}));
  std::filesystem::remove_all(scratch);
}

TEST(Table, HasAColumnForEverySweptKeyAndEveryCase) {
  const auto all = cases("[{ranks: [1, 2]}, {distribution.strategy: [ring, auto], input.generate.sequence: [8, 16]}]");
  const auto best = best_records({measured(3, "ok", "1", 0.25)}, all);
  std::set<std::string> names;
  for (const report::TableColumn& column : table_columns(all, best)) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name << " twice";
    const std::size_t entries = std::visit([](const auto& values) { return values.size(); }, column.values);
    EXPECT_EQ(entries, 4u) << column.name;
    if (column.name == "input.generate.sequence") {
      EXPECT_EQ(std::get<std::vector<Index>>(column.values), (std::vector<Index>{8, 16, 8, 16}));
    }
    if (column.name == "ranks") {
      EXPECT_EQ(std::get<std::vector<Index>>(column.values), (std::vector<Index>{1, 1, 2, 2}));
    }
    if (column.name == "status") {
      EXPECT_EQ(std::get<std::vector<std::string>>(column.values),
                (std::vector<std::string>{"missing", "missing", "missing", "ok"}));
    }
    if (column.name == "attention_seconds_median") {
      const auto& seconds = std::get<std::vector<double>>(column.values);
      EXPECT_TRUE(std::isnan(seconds[0]));
      EXPECT_EQ(seconds[3], 0.25);
    }
  }
  for (const char* name :
       {"attention_seconds_min", "attention_seconds_median", "attention_seconds_max", "gflop_per_cpu_second",
        "share_of_peak", "cudnn_share", "wait_seconds", "bytes_received", "peak_bytes", "predicted_seconds",
        "predicted_peak_bytes", "error_out", "ranks", "threads", "status"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Table, IsPrintedWithALineForEachCaseThatHasARecord) {
  const auto all = cases("[{distribution.strategy: [ring, auto]}, {input.generate.sequence: [8, 16]}]");
  const auto best = best_records({measured(1, "ok", "1", 0.25), measured(2, "failed", "1")}, all);
  const std::string text = printed_table(all, best, 10);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_NE(text.find("strategy"), std::string::npos) << text;
  EXPECT_NE(text.find("0.25"), std::string::npos) << text;
  EXPECT_NE(text.find("failed"), std::string::npos) << text;
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(printed_table(all, best, 1).find("and 1 more, in the file"), std::string::npos);
}

}  // namespace
}  // namespace annulus::app
