// How teams and rows are numbered, and how teams are cut into launches. Integers only.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <tuple>

#include "annulus/core/memory.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/device/changed_scores.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/device/work.hpp"
#include "kernels/device_tables.hpp"

namespace annulus::kernels::device {
namespace {

TEST(DeviceWork, EveryTileBelongsToOneTeam) {
  const core::WorkList list = two_items();
  const DeviceWork work(list, 2, Owner::rows, 32);
  // Item 0: 3 tiles of 32, 32 and 6 rows, 2 heads; last item: 1 tile, 1 head; batch 2.
  ASSERT_EQ(work.teams(), 2 * 3 * 2 + 2 * 1 * 1);
  const HostCopy host(work, list);
  std::set<std::tuple<Index, Index, Index, Index>> seen;  // items have different numbers of queries
  Index rows = 0;
  for (Index team = 0; team < work.teams(); ++team) {
    const TeamTile tile = host.view.tile_of<Owner::rows>(team);
    EXPECT_TRUE(seen.insert({tile.item.query.count, tile.batch, tile.head, tile.begin}).second) << team;
    EXPECT_EQ(tile.begin % 32, 0);
    EXPECT_TRUE(tile.batch == 0 || tile.batch == 1);
    if (tile.item.query.count == 70) {
      EXPECT_TRUE(tile.head == 2 || tile.head == 5) << tile.head;
    } else {
      EXPECT_EQ(tile.head, 0);
      EXPECT_EQ(tile.item.band, core::Band::upto);
    }
    rows += tile.count;
  }
  EXPECT_EQ(rows, 2 * (2 * 70 + 3));
}

TEST(DeviceWork, RowsOfAMapThatStartsInTheMiddleOfTheRuns) {
  const core::WorkList list = two_items();
  const DeviceWork work(list, 1, Owner::rows, 32);
  const HostCopy host(work, list);
  Index index = 0;
  for (const std::size_t r : {1, 2, 3}) {
    for (Index i = 0; i < list.runs[r].count; ++i, ++index) {
      const CombRow found = host.view.row_of(list.items[0].query, index);
      EXPECT_EQ(found.t, list.runs[r].t + i);
      EXPECT_EQ(found.row, list.runs[r].row + i * list.runs[r].stride);
    }
  }
  EXPECT_EQ(index, 70);
}

TEST(DeviceWork, RunsWithoutRowsArePassedOver) {
  core::WorkList list;
  list.runs = {{0, 9, 1, 0}, {1, 4, 1, 1}, {2, 9, 1, 0}, {2, 9, 1, 0}, {3, 6, 1, 1}};
  list.items = {{{0, 5, 2}, {0, 5, 2}, 0, 0, 1, 1}};
  const DeviceWork work(list, 1, Owner::rows, 4);
  const HostCopy host(work, list);
  EXPECT_EQ(host.view.row_of(list.items[0].query, 0).row, 4);
  EXPECT_EQ(host.view.row_of(list.items[0].query, 1).row, 6);
}

// A call uses the memory of an earlier call again, unless the list of the earlier call still exists.
TEST(DeviceWork, MemoryIsKeptFromCallToCall) {
  release_kept_lists();
  const Index before = core::memory_ledger().current();
  const DeviceItem* first = nullptr;
  {
    const DeviceWork work(two_items(), 1, Owner::rows, 32), other(two_items(), 1, Owner::rows, 32);
    first = work.view().items;
    EXPECT_NE(other.view().items, first);
    EXPECT_NE(static_cast<const void*>(work.view().runs), first);
    const HostCopy host(work, two_items());
    EXPECT_EQ(host.items[1].first_team, work.teams() - 1);
  }
  const Index kept = core::memory_ledger().current();
  EXPECT_GT(kept, before);
  core::WorkList more = two_items();
  for (int i = 0; i < 10; ++i) {
    more.runs.push_back({Index(i), 0, 1, 1});
    const DeviceWork work(more, 1, Owner::rows, 32);
    const HostCopy host(work, more);
    EXPECT_EQ(host.runs.back().run.t, i);
  }
  EXPECT_EQ(core::memory_ledger().current(), kept) << "no list needed new memory";
  core::WorkList large = two_items();
  large.runs.resize(100000, {0, 9, 1, 0});
  {
    const DeviceWork work(large, 1, Owner::rows, 32);
    EXPECT_EQ(HostCopy(work, large).runs.size(), 100000u);
    EXPECT_GT(core::memory_ledger().current(), kept);
  }
  release_kept_lists();
  EXPECT_EQ(core::memory_ledger().current(), before);
}

std::vector<std::int32_t> numbers_at(const std::int32_t* device, Index count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  core::copy_to_host(numbers.data(), device, count * Index(sizeof(std::int32_t)));
  return numbers;
}

// Calls with one rule share its coordinates on the device. The ledger counts them until those of another rule replace
// them.
TEST(DeviceRule, CoordinatesAreKeptFromCallToCall) {
  release_kept_lists();
  core::memory_ledger().reset_peak();
  const Index before = core::memory_ledger().current();
  const ScoreRule rule{0, {0.5, 0.25}, 0, std::make_shared<Coordinates>(std::vector<double>{3, 0, 1, 4, 2, 2})};
  const CallRule call{&rule, 0};
  const std::int32_t* const first = DeviceRule<float>(call, 2).view().coordinates;
  const double unit = rule.coordinates->unit(30);
  const auto whole = [&](double number) { return std::int32_t(number / unit); };
  const std::vector<std::int32_t> places{whole(2), 0, 0, whole(4), whole(1), whole(2)};
  EXPECT_EQ(numbers_at(first, 6), places);
  EXPECT_EQ(DeviceRule<float>(call, 1).view().coordinates, first);
  EXPECT_EQ(core::memory_ledger().peak_by_purpose()["coordinates"],
            rule_bytes(core::Backend::device, rule, core::Precision::float32));
  {
    const DeviceRule<double> wide(call, 2);
    EXPECT_NE(static_cast<const void*>(wide.view().coordinates), first) << "64 bits each";
    std::int64_t last = 0;
    core::copy_to_host(&last, wide.view().coordinates + 3, Index(sizeof last));
    EXPECT_EQ(last, std::int64_t(4 / rule.coordinates->unit(60)));
  }
  // Other coordinates may get the same memory, but must replace the numbers in it.
  const ScoreRule other{0, {0.5, 0.25}, 0, std::make_shared<Coordinates>(std::vector<double>{0, 0, 1, 1, 0, 4})};
  const std::vector<std::int32_t> others{0, 0, whole(1), whole(1), 0, whole(4)};
  EXPECT_EQ(numbers_at(DeviceRule<float>({&other, 0}, 2).view().coordinates, 6), others);
  EXPECT_EQ(numbers_at(DeviceRule<float>(call, 2).view().coordinates, 6), places);
  {
    const ScoreRule brief{0, {0.5, 0.25}, 0, std::make_shared<Coordinates>(rule.coordinates->numbers())};
    EXPECT_EQ(numbers_at(DeviceRule<float>({&brief, 0}, 2).view().coordinates, 6), places);
  }
  const Index all = core::memory_ledger().current();
  kept_list(1);
  EXPECT_EQ(core::memory_ledger().current(), all - 24) << "no coordinates, no copy of them";
  EXPECT_EQ(rule_bytes(core::Backend::device, {20}, core::Precision::float32), 0) << "a cap has no table";
  release_kept_lists();
  EXPECT_EQ(core::memory_ledger().current(), before);
}

TEST(DeviceWork, LaunchesCoverTheTeamsInOrder) {
  const DeviceWork work(two_items(), 2, Owner::rows, 32);
  // A team of item 0 does 4 D * 32 rows * 73 keys = 37376 flops at D = 4, one of the last item 4 D * 3 * 40 / 2 = 960.
  EXPECT_EQ(work.launches(4, 1), (std::vector<Index>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(work.launches(4, 5 * 37376.0), (std::vector<Index>{5, 10, 14}));
  EXPECT_EQ(work.launches(4, 12 * 37376.0), (std::vector<Index>{12, 14}));
  EXPECT_EQ(work.launches(4, std::numeric_limits<double>::max()), (std::vector<Index>{14}));
  EXPECT_TRUE(DeviceWork(core::WorkList{}, 2, Owner::rows, 32).launches(4, 1).empty());
}

TEST(DeviceWork, LaunchesStayBelowTheSizeOfALeague) {
  // 2^31 rows of a batch of 2 in tiles of one row: 2^32 teams.
  core::WorkList list;
  list.runs = {{0, 0, 1, Index(1) << 31}};
  list.items = {{{0, 1, Index(1) << 31}, {0, 1, 5}, 0, 0, 1, 1}};
  const std::vector<Index> ends = DeviceWork(list, 2, Owner::rows, 1).launches(64, std::numeric_limits<double>::max());
  EXPECT_EQ(ends, (std::vector<Index>{Index(1) << 30, Index(2) << 30, Index(3) << 30, Index(4) << 30}));
}

}  // namespace
}  // namespace annulus::kernels::device
