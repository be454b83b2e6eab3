// How a problem is cut into slices: every entry and head is in one slice, and there are as few slices as memory allows.
#include <gtest/gtest.h>

#include <set>

#include "annulus/strategies/slices.hpp"

namespace annulus::strategies {
namespace {

TEST(Slices, HoldEveryHeadOfEveryEntryOnce) {
  for (const SliceSize size : {SliceSize{3, 4}, {2, 4}, {1, 4}, {1, 3}, {1, 1}}) {
    const core::Shape shape{3, 100, 8, 4, 16};
    std::set<std::pair<Index, Index>> seen;
    for (Index i = 0; i < slices_of(shape, size); ++i) {
      const Slice slice = slice_of(shape, size, i);
      EXPECT_LE(slice.batch.size(), size.batch_entries);
      EXPECT_EQ(slice.query_heads(2).size(), 2 * slice.kv_heads.size());
      for (Index b = slice.batch.begin; b < slice.batch.end; ++b) {
        for (Index h = slice.kv_heads.begin; h < slice.kv_heads.end; ++h) EXPECT_TRUE(seen.insert({b, h}).second);
      }
    }
    EXPECT_EQ(seen.size(), 12U);
  }
}

TEST(Slices, AreTheFewestThatFitCutEvenly) {
  const core::Shape shape{4, 100, 10, 5, 16};
  // At most this many K/V heads, of all batch entries together, fit at a time.
  const auto most = [&](Index heads) {
    return largest_slices(shape, [=](const SliceSize& size) { return size.batch_entries * size.kv_heads <= heads; });
  };
  EXPECT_EQ(most(20), whole_of(shape));
  EXPECT_EQ(most(19), (SliceSize{2, 5}));  // slices of 3 entries would fit, but would also be 2 slices
  EXPECT_EQ(most(9), (SliceSize{1, 5}));
  EXPECT_EQ(most(4), (SliceSize{1, 3}));
  EXPECT_EQ(most(2), (SliceSize{1, 2}));
  EXPECT_EQ(most(1), (SliceSize{1, 1}));
  EXPECT_EQ(most(0), std::nullopt);
}

TEST(Slices, KeepTheOffsetsOfTheWholeProblem) {
  Problem whole;
  whole.shape = {2, 64, 8, 4, 16};
  const Problem narrow = narrowed(whole, Slice{{1, 2}, {2, 4}});
  EXPECT_EQ(narrow.shape.batch, 1);
  EXPECT_EQ(narrow.shape.heads, 4);
  EXPECT_EQ(narrow.share->query, (core::Interval{4, 8}));
  const Problem twice = narrowed(narrow, core::Interval{1, 3});  // for example on a rank of ulysses
  EXPECT_EQ(twice.share->query, (core::Interval{5, 7}));
  EXPECT_EQ(twice.share->heads, 8);
  EXPECT_EQ(twice.share->kv_heads, 4);
  EXPECT_FALSE(narrowed(whole, Slice{{0, 1}, {0, 4}}).share) << "a slice with all heads";
}

}  // namespace
}  // namespace annulus::strategies
