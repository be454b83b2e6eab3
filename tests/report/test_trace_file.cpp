// The trace of all ranks in one file: complete, in order, and valid JSON whatever characters names contain.
#include "annulus/report/trace_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "annulus/comm/root.hpp"
#include "store/hdf5_files.hpp"
#include "support/file_size_limit.hpp"

namespace annulus::report {
namespace {

using core::Span;
using core::SpanKind;
using nlohmann::json;
using test::SharedFolder;

/// Makes the spans of these tests: rank r makes r + 1 steps.
void work(const comm::Communicator& comm) {
  const Span pass("a \"pass\" of \\ \xff", SpanKind::pass);
  for (int s = 0; s <= comm.rank(); ++s) {
    const Span step("step", SpanKind::step, s);
    const Span pack("pack");
    comm::watchdog_progress();
  }
}

json parse(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

std::vector<json> events_of(const json& trace, int rank, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["pid"] == rank && event["ph"] == phase) found.push_back(event);
  }
  return found;
}

class Trace : public testing::Test {
 protected:
  const comm::Communicator comm{MPI_COMM_WORLD};
  const SharedFolder folder{comm};
  const std::string path = folder / "trace.json";
};

TEST_F(Trace, HasTheSpansOfEveryRank) {
  TraceFile file(path, false, comm);
  work(comm);
  EXPECT_EQ(comm.sum(std::filesystem::exists(path)), 0);
  file.finish({{"title", "a \"title\""}, {"software", "annulus"}});
  const json trace = parse(path);
  EXPECT_EQ(trace["otherData"]["title"], "a \"title\"");
  EXPECT_EQ(trace["otherData"]["software"], "annulus");
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::map<std::string, json> about;
    for (const json& event : events_of(trace, rank, "M")) about[event["name"]] = event["args"];
    EXPECT_EQ(about["process_name"]["name"].get<std::string>().find(fmt::format("rank {} (", rank)), 0u);
    EXPECT_EQ(about["process_sort_index"]["sort_index"], rank);
    EXPECT_EQ(about["annulus_forgotten"]["spans"], 0);
    EXPECT_EQ(about["annulus_clock"].count("error_seconds"), 1u);
    std::vector<std::string> names;
    std::vector<int> steps;
    for (const json& event : events_of(trace, rank, "X")) {
      if (event["cat"] == "call") continue;  // a call of MPI that took long
      names.push_back(event["name"]);
      if (names.back() == "step") steps.push_back(event["args"]["number"]);
      EXPECT_GE(event["ts"], 0);
      EXPECT_GE(event["dur"], 0);
    }
    std::vector<std::string> expected{"a \"pass\" of \\ \xef\xbf\xbd"};  // bytes that are not UTF-8 are replaced
    for (int s = 0; s <= rank; ++s) expected.insert(expected.end(), {"step", "pack"});
    EXPECT_EQ(names, expected) << "rank " << rank;  // an outer span comes before those inside
    ASSERT_EQ(steps.size(), std::size_t(rank + 1));
    EXPECT_EQ(steps.back(), rank);
  }
  EXPECT_EQ(events_of(trace, comm.size(), "X").size(), 0u);
}

/// Viewers nest spans in the order of the file, so of spans that begin together the longest must come first.
TEST_F(Trace, ASpanComesBeforeThoseThatItHolds) {
  TraceFile file(path, false, comm);
  const double now = core::wall_seconds();
  for (const double seconds : {1e-3, 3e-3, 2e-3}) {
    core::Timeline::current()->add("held", SpanKind::other, -1, now, now + seconds);
  }
  file.finish({});
  const json trace = parse(path);
  std::vector<double> lengths;
  for (const json& event : events_of(trace, comm.rank(), "X")) {
    if (event["name"] == "held") lengths.push_back(std::round(double(event["dur"]) / 1000));
  }
  EXPECT_EQ(lengths, (std::vector<double>{3, 2, 1}));
}

TEST_F(Trace, NothingIsRecordedBeforeAndAfter) {
  { const Span early("early"); }
  TraceFile file(path, false, comm);
  file.finish({});
  EXPECT_EQ(core::Timeline::current(), nullptr);
  const json trace = parse(path);
  for (const json& event : trace["traceEvents"]) EXPECT_NE(event["name"], "early");
}

TEST_F(Trace, IsNotThereWithoutItsEnd) {
  {
    TraceFile file(path, false, comm);
    work(comm);
  }
  comm.barrier();
  EXPECT_EQ(core::Timeline::current(), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
  comm.barrier();
}

TEST_F(Trace, AFullDiskIsEveryonesErrorAndLeavesNothing) {
  {
    TraceFile file(path, false, comm);
    for (int i = 0; i < 100; ++i) work(comm);
    const test::FileSizeLimit limit(500);
    const std::string message = test::common_error(comm, [&] { file.finish({}); });
    EXPECT_EQ(message, path + ": writing failed: File too large");
  }
  comm.barrier();
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
  comm.barrier();
}

TEST_F(Trace, ABadPlaceIsFoundAtOnce) {
  const std::string nowhere = folder / "missing/trace.json";
  const std::string message = test::common_error(comm, [&] { TraceFile(nowhere, false, comm); });
  EXPECT_EQ(message, nowhere + ": the output folder " + (folder / "missing") + " does not exist");
  EXPECT_EQ(core::Timeline::current(), nullptr);
  on_root(comm, [&] { std::ofstream(path) << "precious"; });
  const std::string taken = test::common_error(comm, [&] { TraceFile(path, false, comm); });
  EXPECT_EQ(taken.find(path + ": the output exists already"), 0u) << taken;
}

}  // namespace
}  // namespace annulus::report
