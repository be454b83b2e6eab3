// How backward teams and an item's queries are numbered, and how teams are cut into launches. Integers only.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <tuple>

#include "annulus/kernels/device/work.hpp"
#include "kernels/device_tables.hpp"

namespace annulus::kernels::device {
namespace {

template <Owner owner>
void expect_every_row_once(Index teams, Index rows_of_first, Index rows_of_last) {
  const core::WorkList list = two_items();
  const DeviceWork work(list, 2, owner, 32);
  ASSERT_EQ(work.teams(), teams);
  const HostCopy<DeviceWork> host(work, list);
  std::set<std::tuple<Index, Index, Index>> seen;  // items have different numbers of keys
  Index rows = 0;
  for (Index team = 0; team < work.teams(); ++team) {
    const TeamTile tile = host.view.tile_of<owner>(team);
    EXPECT_TRUE(seen.insert({tile.item.key.count, tile.batch, tile.begin}).second) << team;
    EXPECT_EQ(tile.begin % 32, 0);
    EXPECT_TRUE(tile.batch == 0 || tile.batch == 1);
    EXPECT_LE(tile.begin + tile.count, tile.item.key.count == 73 ? rows_of_first : rows_of_last);
    EXPECT_GT(tile.count, 0);
    rows += tile.count;
  }
  EXPECT_EQ(rows, 2 * (rows_of_first + rows_of_last));
}

TEST(BackwardWork, EveryTileBelongsToOneTeam) {
  expect_every_row_once<Owner::queries>(2 * 5 + 2 * 1, 140, 3);  // 70 rows of two heads: 5 tiles of 32
  expect_every_row_once<Owner::keys>(2 * 3 + 2 * 2, 73, 40);
}

TEST(BackwardWork, LongestWorkFirst) {
  const core::WorkList list = two_items();
  const DeviceWork queries(list, 1, Owner::queries, 32), keys(list, 1, Owner::keys, 32);
  EXPECT_EQ(HostCopy(queries, list).view.tile_of<Owner::queries>(0).begin, 128);
  EXPECT_EQ(HostCopy(keys, list).view.tile_of<Owner::keys>(0).begin, 0);
}

TEST(BackwardWork, QueriesAreRowsThenHeads) {
  const core::WorkList list = two_items();
  const DeviceWork work(list, 1, Owner::queries, 32);
  const HostCopy host(work, list);
  Index number = 0;
  for (const std::size_t r : {1, 2, 3}) {
    for (Index i = 0; i < list.runs[r].count; ++i) {
      for (const Index head : {2, 5}) {
        const ItemRow found = host.view.query_of(list.items[0], number++);
        EXPECT_EQ(found.t, list.runs[r].t + i);
        EXPECT_EQ(found.row, list.runs[r].row + i * list.runs[r].stride);
        EXPECT_EQ(found.head, head);
      }
    }
  }
  EXPECT_EQ(number, owned_rows(list.items[0], Owner::queries));
  const ItemRow key = host.view.key_of(list.items[0], 4);  // the second of the second run
  EXPECT_EQ(key.t, 1);
  EXPECT_EQ(key.row, 12);
  EXPECT_EQ(key.head, 1);
}

TEST(BackwardWork, LaunchesFollowTheWork) {
  constexpr double everything = std::numeric_limits<double>::max();
  const DeviceWork queries(two_items(), 2, Owner::queries, 32), keys(two_items(), 2, Owner::keys, 32);
  // D = 4. Teams of queries do 3 products, 24 flops a pair: of 32 x 73 pairs in item 0, of 3 * 40 / 2 in the last item.
  // Teams of keys do 4 products, 32 flops a pair: of 32 x 140 pairs in item 0, of 32 * 3 / 2 in the last item.
  EXPECT_EQ(queries.launches(4, 5 * 56064.0), (std::vector<Index>{5, 10, 12}));
  EXPECT_EQ(queries.launches(4, 10 * 56064.0 + 1440), (std::vector<Index>{11, 12}));
  EXPECT_EQ(keys.launches(4, 4 * 143360.0), (std::vector<Index>{4, 10}));
  EXPECT_EQ(keys.launches(4, 6 * 143360.0 + 1536 + 1535), (std::vector<Index>{7, 10}));
  EXPECT_EQ(keys.launches(4, everything), (std::vector<Index>{10}));
  EXPECT_TRUE(DeviceWork(core::WorkList{}, 2, Owner::keys, 32).launches(4, 1).empty());
}

}  // namespace
}  // namespace annulus::kernels::device
