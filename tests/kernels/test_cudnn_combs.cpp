// Work lists cut into strided calls: the example at the head of combs.hpp, and for awkward lists the (query, key)
// pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "annulus/kernels/cudnn/combs.hpp"
#include "kernels/band_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::WorkList;
using kernels::cudnn::CutList;
using kernels::cudnn::StridedCall;
using Meeting = std::array<Index, 4>;  // query row, head, key row, key/value head

std::vector<Meeting> meetings(const std::vector<WorkList>& lists) {
  std::vector<Meeting> all;
  for (const WorkList& list : lists) {
    for (const core::WorkItem& item : list.items) {
      for (const CombRow query : comb_rows(list, item.query)) {
        for (const CombRow key : comb_rows(list, item.key)) {
          for (Index h = 0; sees(item.band, query.t, key.t) && h < item.head_count; ++h)
            all.push_back({query.row, item.head_first + h * item.head_stride, key.row, item.kv_head});
        }
      }
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Appends the meetings of a call, computed from the call's strides, as a library computes them.
void append_meetings(const StridedCall& call, std::vector<Meeting>& all) {
  for (Index s = 0; s < call.segments; ++s) {
    for (Index g = 0; g < call.groups; ++g) {
      for (Index h = 0; h < call.heads; ++h) {
        for (Index i = 0; i < call.query.count; ++i) {
          for (Index j = 0; j < call.key.count && (!call.seen || j <= i + *call.seen); ++j) {
            all.push_back({call.query.row(s, i), call.query_head(g, h), call.key_row(s, g, j),
                           call.kv_head + g * call.next_kv_head});
          }
        }
      }
    }
  }
}

/// Checks that the call has no (row, head) of queries or of keys twice, because results are added without locks.
void expect_rows_once(const StridedCall& call) {
  std::set<std::array<Index, 2>> queries, keys;
  for (Index s = 0; s < call.segments; ++s) {
    for (Index g = 0; g < call.groups; ++g) {
      for (Index j = 0; j < call.key.count; ++j)
        EXPECT_TRUE(keys.insert({call.key_row(s, g, j), call.kv_head + g * call.next_kv_head}).second);
      for (Index h = 0; h < call.heads; ++h) {
        for (Index i = 0; i < call.query.count; ++i)
          EXPECT_TRUE(queries.insert({call.query.row(s, i), call.query_head(g, h)}).second);
      }
    }
  }
}

CutList expect_same_meetings(const WorkList& list) {
  const CutList cut = kernels::cudnn::cut_into_calls(list);
  std::vector<Meeting> strided = meetings({cut.rest});
  std::vector<WorkList> lists{cut.rest};
  for (const StridedCall& call : cut.calls) {
    append_meetings(call, strided);
    lists.push_back(kernels::cudnn::list_of(call));
    expect_rows_once(call);
  }
  std::sort(strided.begin(), strided.end());
  EXPECT_EQ(strided, meetings({list}));
  EXPECT_EQ(meetings(lists), meetings({list}));
  return cut;
}

/// Rows 0 ... 15, pair (8, 2), heads 0 and 1 at offset 0, 2 and 3 at offset 1; combs of the last segment have `last`
/// rows.
WorkList two_segments(Index last, Band mask) {
  WorkList list;
  for (Index segment = 0; segment < 2; ++segment) {
    for (Index head = 0; head < 4; ++head) {
      const Index count = segment == 1 ? last : 4, run = Index(list.runs.size());
      list.runs.push_back({0, segment * 8 + head / 2, 2, count});
      list.items.push_back({{run, 1, count}, {run, 1, count}, head, head, 1, 1, mask});
    }
  }
  return list;
}

TEST(CudnnCombs, SegmentsAtOneOffsetAreOneCall) {
  const CutList cut = expect_same_meetings(two_segments(4, Band::upto));
  ASSERT_EQ(cut.calls.size(), 2U);
  const StridedCall first{
      .segments = 2, .groups = 2, .query = {0, 2, 4, 8}, .key = {0, 2, 4, 8}, .next_kv_head = 1, .seen = 0};
  StridedCall second = first;
  second.query.first = second.key.first = 1;
  second.head_first = second.kv_head = 2;
  EXPECT_EQ(cut.calls[0], first);
  EXPECT_EQ(cut.calls[1], second);
  EXPECT_TRUE(cut.rest.items.empty());
}

TEST(CudnnCombs, ShorterLastSegmentIsACallOfItsOwn) {
  const CutList cut = expect_same_meetings(two_segments(3, Band::all));
  ASSERT_EQ(cut.calls.size(), 4U);
  for (const StridedCall& call : cut.calls) {
    EXPECT_EQ(call.segments, 1);
    EXPECT_EQ(call.groups, 2);
    EXPECT_FALSE(call.seen);
  }
}

TEST(CudnnCombs, MoreSegmentsThanAGridTakesAreSeveralCalls) {
  WorkList list;
  for (Index segment = 0; segment < (1 << 15) + 3; ++segment) {
    list.runs.push_back({0, 2 * segment, 1, 2});
    list.items.push_back({{segment, 1, 2}, {segment, 1, 2}, 0, 0, 1, 1, Band::upto});
  }
  const CutList cut = expect_same_meetings(list);
  ASSERT_EQ(cut.calls.size(), 2U);
  EXPECT_EQ(cut.calls[0].segments, 1 << 15);
  EXPECT_EQ(cut.calls[1].segments, 3);
}

TEST(CudnnCombs, HeadsOfAGroupStayTogether) {
  WorkList list;
  list.runs = {{0, 0, 1, 5}, {0, 5, 1, 5}};
  for (Index segment = 0; segment < 2; ++segment) {
    for (Index kv = 0; kv < 3; ++kv)
      list.items.push_back({{segment, 1, 5}, {segment, 1, 5}, kv, 4 * kv, 2, 2, Band::upto});
  }
  const CutList cut = expect_same_meetings(list);
  ASSERT_EQ(cut.calls.size(), 1U);
  EXPECT_EQ(cut.calls[0].segments, 2);
  EXPECT_EQ(cut.calls[0].groups, 3);
  EXPECT_EQ(cut.calls[0].heads, 2);
  EXPECT_EQ(cut.calls[0].head_stride, 2);

  for (core::WorkItem& item : list.items) item.head_first += item.kv_head;  // 0 2 | 5 7 | 10 12: unequal steps
  EXPECT_EQ(expect_same_meetings(list).calls.size(), 3U);
}

TEST(CudnnCombs, KeysOfHeadsInRowsOfTheirOwn) {
  WorkList list;
  list.runs = {{0, 0, 1, 5}, {0, 2, 3, 5}, {0, 40, 3, 5}, {0, 78, 3, 5}};
  for (Index kv = 0; kv < 3; ++kv) list.items.push_back({{0, 1, 5}, {kv + 1, 1, 5}, kv, kv, 1, 1, Band::upto});
  const CutList cut = expect_same_meetings(list);
  ASSERT_EQ(cut.calls.size(), 1U);
  EXPECT_EQ(cut.calls[0].next_key_row, 38);
}

TEST(CudnnCombs, RectanglesUnderTheDiagonal) {
  WorkList list;
  list.runs = {{10, 0, 1, 6}, {4, 0, 1, 12}};
  list.items = {{{0, 1, 6}, {1, 1, 12}, 0, 0, 1, 1, Band::upto}};
  EXPECT_EQ(expect_same_meetings(list).calls.front().seen, 6);
  list.runs[1] = {4, 0, 1, 7};  // keys 4 to 10, queries from 10 on: none is hidden
  list.items[0].key.count = 7;
  EXPECT_FALSE(expect_same_meetings(list).calls.front().seen);
  list.runs[1] = {12, 0, 1, 9};  // queries 10 and 11 see none, keys 16 and later are seen by none
  list.items[0].key.count = 9;
  const StridedCall call = expect_same_meetings(list).calls.front();
  EXPECT_EQ(call.query.count, 4);
  EXPECT_EQ(call.key.count, 4);
  EXPECT_EQ(call.seen, 0);
  list.runs[1] = {16, 0, 1, 9};
  EXPECT_TRUE(expect_same_meetings(list).calls.empty());
}

TEST(CudnnCombs, KeysBehindTheQueryAloneAreLeft) {
  WorkList list;
  list.runs = {{0, 0, 1, 6}, {6, 6, 1, 4}};
  list.items = {{{0, 1, 6}, {1, 1, 4}, 0, 0, 1, 1, Band::after}};
  EXPECT_EQ(expect_same_meetings(list).calls.size(), 1U);  // all keys come after all queries
  list.items[0].key = {0, 1, 6};
  const CutList cut = expect_same_meetings(list);
  EXPECT_TRUE(cut.calls.empty());
  EXPECT_EQ(cut.why_rest, "a band that is neither all nor causal, as windows have");
}

TEST(CudnnCombs, RowsInManyPiecesAreLeft) {
  WorkList list;
  for (Index i = 0; i < 5; ++i) list.runs.push_back({3 * i, 3 * i, 1, 2});
  list.items = {{{0, 5, 10}, {0, 5, 10}, 0, 0, 1, 1, Band::upto}};
  const CutList cut = expect_same_meetings(list);
  EXPECT_TRUE(cut.calls.empty());
  EXPECT_EQ(cut.why_rest, "rows in 5 x 5 pieces");
  list.items = {{{0, 4, 8}, {0, 4, 8}, 0, 0, 1, 1, Band::upto}};
  EXPECT_FALSE(expect_same_meetings(list).calls.empty());
}

TEST(CudnnCombs, AwkwardLists) {
  for (const bool causal : {false, true}) {
    const WorkCase test = awkward_case(8, DType::bfloat16, core::Precision::float32, causal);
    for (const WorkList& list : test.calls) expect_same_meetings(list);
  }
  for (const Band mask : {Band::all, Band::upto, Band::after}) {
    const BackwardCase test = awkward_backward_case(8, DType::bfloat16, core::Precision::float32, mask);
    for (const WorkList& list : test.calls) expect_same_meetings(list);
  }
}

TEST(CudnnCombs, BandsWithTwoEnds) {
  for (const Band& band : window_bands) {
    SCOPED_TRACE(name_of(band));
    const WorkCase test = with_band(awkward_case(8, DType::bfloat16, core::Precision::float32, false), band);
    for (const WorkList& list : test.calls) expect_same_meetings(list);
    // One run of queries and one run of keys: nothing is left over if the band hides no key on the left, or all keys.
    WorkList list;
    list.runs = {{10, 0, 1, 30}, {0, 0, 1, 60}};
    list.items = {{{0, 1, 30}, {1, 1, 60}, 0, 0, 1, 1, band}};
    EXPECT_EQ(expect_same_meetings(list).rest.empty(), band.left >= 39 || band.left < -49);
  }
}

}  // namespace
}  // namespace annulus::test
