// Blocks share the keys of a team, without a GPU (test_cuda_forward.cpp): the parts, and attention against the
// definition.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/cuda_kinds.hpp"

#include "annulus/core/memory.hpp"
#include "annulus/kernels/cuda/tuning.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "kernels/split_case.hpp"

namespace annulus::test {
namespace {

using kernels::cuda::KeyPart;
using kernels::cuda::KeyRange;
using kernels::cuda::KeySplit;
using kernels::cuda::longest_part;
using kernels::cuda::no_partial;
using kernels::cuda::Room;
using kernels::cuda::split_keys;
using kernels::cuda::TeamKeys;

template <class Products>
class CudaSplit : public testing::Test {
 public:
  static WorkCase few_queries() {
    return few_queries_case(Products::head_dims[0], Products::type, Products::precision);
  }
};
TYPED_TEST_SUITE(CudaSplit, AllProducts);

TYPED_TEST(CudaSplit, AnyNumberOfParts) {
  const WorkCase test = this->few_queries();
  for (const Index parts : {1, 2, 3, 7}) {
    TwinRun how{.parts = parts};
    expect_right(test, TypeParam::twin(test, how), TypeParam::tolerance, std::to_string(parts) + " parts");
    EXPECT_EQ(how.partial_states > 0, parts > 1) << parts;
    EXPECT_EQ(how.bank_conflicts, 1) << parts;
  }
}

// Most or all queries of a tile come before every key of some parts: their partial states for such a part are empty. In
// the second problem, empty states are also merged with each other.
TYPED_TEST(CudaSplit, PartsInWhichRowsSeeNoKey) {
  WorkCase test = long_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, core::Band::upto);
  test.calls[0].runs = {{0, 5, 2, 200}, {0, 10, 3, 280}};
  test.calls[0].items = {{{0, 1, 200}, {1, 1, 280}, 0, 0, 1, 1, core::Band::upto}};
  TwinRun how{.parts = 100};  // one tile of keys in each part
  const kernels::ReferenceResult answer = TypeParam::twin(test, how);
  expect_right(test, answer, TypeParam::tolerance, "causal, a tile in each part");
  EXPECT_GT(how.partial_states, 0);

  test.calls[0].runs[1].t = 190;  // only the last ten see a key
  const kernels::ReferenceResult few = TypeParam::twin(test, how);
  expect_right(test, few, TypeParam::tolerance, "few rows that see a key");
  EXPECT_EQ(few.lse[5 + 2 * 189], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(few.out[std::size_t(5 + 2 * 189) * std::size_t(test.shape.head_dim)], 0.0);
}

TEST(CudaSplitNumbers, SameBitsInAnyOrderOfBlocksAndThreads) {
  const WorkCase test = few_queries_case(64, DType::bfloat16, core::Precision::float32);
  TwinRun first{.parts = 3};
  const kernels::ReferenceResult expected = BFloat16Products::twin(test, first);
  TwinRun other{Copies::at_once, Fibres::Order::downwards};
  other.parts = 3;
  other.last_block_first = true;
  const kernels::ReferenceResult actual = BFloat16Products::twin(test, other);
  EXPECT_EQ(actual.out, expected.out);
  EXPECT_EQ(actual.lse, expected.lse);
}

// The m of the parts differ by more than float32's range of exponents.
TEST(CudaSplitNumbers, NothingButTheLargestScoreCounts) {
  WorkCase test = few_queries_case(8, DType::bfloat16, core::Precision::float32);
  test.fill(1e30);
  TwinRun how{.parts = 3};
  expect_right(test, BFloat16Products::twin(test, how), BFloat16Products::tolerance, "large scores");
}

TEST(CudaSplitNumbers, GoesOnFromThePortableKernelsState) {
  const WorkCase test = few_queries_case(8, DType::bfloat16, core::Precision::float32);
  TwinRun how{.parts = 7};
  int call = 0;
  const auto answer = answer_by(
      test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
        if (call++ == 1) {
          BFloat16Products::with_block(8, [&](auto b) { twin_attend<decltype(b)>(list, qkv, scale, state, how); });
        } else {
          kernels::attend(kernels::Backend::device, list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, state);
        }
      });
  expect_right(test, answer, BFloat16Products::tolerance, "the second call in parts");
  EXPECT_GT(how.partial_states, 0);
}

// The example in key_split.hpp.
TEST(KeySplitOfTeams, PartsAreWholeTilesFromTheLastOneDown) {
  const KeySplit split = split_keys({{{5, 635}, 40}, {{0, 0}, 9}, {{64, 256}, 20}}, 64, 4);
  const KeyPart expected[] = {{0, {5 + 6 * 64 + 64, 635}, 0, true},
                              {0, {5 + 4 * 64, 5 + 7 * 64}, 40, false},
                              {0, {5, 5 + 4 * 64}, 80, false},
                              {2, {64, 256}, no_partial, true}};
  ASSERT_EQ(split.parts.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(split.parts[i].team, expected[i].team) << i;
    EXPECT_EQ(split.parts[i].keys.begin, expected[i].keys.begin) << i;
    EXPECT_EQ(split.parts[i].keys.end, expected[i].keys.end) << i;
    EXPECT_EQ(split.parts[i].partial, expected[i].partial) << i;
    EXPECT_EQ(split.parts[i].goes_on, expected[i].goes_on) << i;
  }
  ASSERT_EQ(split.teams.size(), 1u);
  EXPECT_EQ(split.teams[0].team, 0);
  EXPECT_EQ(split.teams[0].first, 0);
  EXPECT_EQ(split.teams[0].parts, 3);
  EXPECT_EQ(split.partial_states, 120);
}

TEST(KeySplitOfTeams, EveryKeyIsInOnePartAndEveryPartialStateInOne) {
  std::vector<TeamKeys> teams;
  for (Index i = 0; i < 50; ++i) teams.push_back({{i, i + 37 * i % 701}, 1 + i % 5});
  for (const Index longest : {1, 2, 3, 8, 100}) {
    const KeySplit split = split_keys(teams, 16, longest);
    std::vector<Index> met(teams.size(), 0);
    std::vector<int> users(std::size_t(split.partial_states), 0);
    for (const KeyPart& part : split.parts) {
      const TeamKeys& team = teams[std::size_t(part.team)];
      EXPECT_EQ(part.keys.end, team.keys.end - met[std::size_t(part.team)]) << "downwards, without a gap";
      EXPECT_EQ((part.keys.begin - team.keys.begin) % 16, 0);
      EXPECT_LE(part.keys.end - part.keys.begin, longest * 16);
      EXPECT_GT(part.keys.end, part.keys.begin);
      EXPECT_EQ(part.goes_on, met[std::size_t(part.team)] == 0);
      met[std::size_t(part.team)] += part.keys.end - part.keys.begin;
      for (Index i = 0; part.partial != no_partial && i < team.queries; ++i) ++users[std::size_t(part.partial + i)];
    }
    for (std::size_t i = 0; i < teams.size(); ++i) EXPECT_EQ(met[i], teams[i].keys.end - teams[i].keys.begin) << i;
    for (const int count : users) EXPECT_EQ(count, 1);
  }
}

constexpr Index plenty = Index(1) << 40;

std::vector<TeamKeys> alike(Index teams, Index tiles) {
  return std::vector<TeamKeys>(std::size_t(teams), TeamKeys{{0, tiles * 64}, 128});
}

TEST(LongestPart, TeamsThatFillTheGpuAreNotCut) {
  EXPECT_EQ(longest_part(alike(264, 1000), 64, {264, plenty}), 1000);
  EXPECT_EQ(longest_part(alike(1000, 1000), 64, {264, plenty}), 1000);
  EXPECT_EQ(longest_part({}, 64, {264, plenty}), 0);
  EXPECT_EQ(longest_part(alike(3, 0), 64, {264, plenty}), 0);
}

TEST(LongestPart, FewTeamsTakeTheWholeGpu) {
  EXPECT_EQ(longest_part(alike(66, 1000), 64, {264, plenty}), 250);  // four parts each; the GPU runs 264 blocks at once
  // 160 teams in 2 parts need two rounds of 264 blocks, of 50 tiles each: no gain. In 3 parts: two rounds of 34.
  EXPECT_EQ(longest_part(alike(160, 100), 64, {264, plenty}), 34);
  // 200 teams in 2 parts need two rounds of 50 tiles, in 3 parts three rounds of 34: no gain.
  EXPECT_EQ(longest_part(alike(200, 100), 64, {264, plenty}), 100);
  EXPECT_EQ(longest_part(alike(1, 6400), 64, {264, plenty}), 100) << "no more than 64 parts";
}

TEST(LongestPart, FewKeysAreNotWorthASplit) {
  // Splitting costs as much time as 16 tiles of 64 keys, and a part has at least 4 such tiles.
  EXPECT_EQ(longest_part(alike(1, 20), 64, {264, plenty}), 20);
  EXPECT_EQ(longest_part(alike(1, 21), 64, {264, plenty}), 4);
  EXPECT_EQ(longest_part(alike(1, 21), 16, {264, plenty}), 17) << "bounds count keys, not tiles: five parts";
}

TEST(LongestPart, OneLongTeamAmongShortOnes) {
  std::vector<TeamKeys> teams = alike(200, 10);
  teams.push_back({{0, 1000 * 64}, 128});
  EXPECT_EQ(longest_part(teams, 64, {264, plenty}), 16);
  const KeySplit split = split_keys(teams, 64, 16);
  EXPECT_EQ(split.teams.size(), 1u) << "the short ones stay whole";
  EXPECT_EQ(split.parts.size(), 263u);
}

TEST(LongestPart, TeamsWithoutKeysTakeNoRoom) {
  std::vector<TeamKeys> teams = alike(66, 1000);
  for (Index i = 0; i < 300; ++i) teams.push_back({{70, 70}, 128});
  EXPECT_EQ(longest_part(teams, 64, {264, plenty}), 250);
}

TEST(LongestPart, PartialStatesAreBounded) {
  EXPECT_EQ(longest_part(alike(66, 1000), 64, {264, 66 * 128 * 2}), 500) << "room for two parts each";
  EXPECT_EQ(longest_part(alike(66, 1000), 64, {264, 66 * 128 * 2 - 1}), 1000);
}

// The host finds for a team the range of keys that its queries see; the range begins with a granule.
TEST(KeysOfTeams, AreThoseThatSomeQuerySees) {
  const WorkCase test = few_queries_case(8, DType::bfloat16, core::Precision::float32);
  for (const core::WorkList& list : test.calls) {
    const kernels::device::DeviceWork work(list, 2, kernels::device::Owner::rows, 32);
    const auto teams = kernels::cuda::keys_of_teams(work.host_view(), work.teams());
    ASSERT_EQ(Index(teams.size()), work.teams());
    for (Index team = 0; team < work.teams(); ++team) {
      const auto tile = work.host_view().tile_of<kernels::device::Owner::rows>(team);
      const auto queries = comb_rows(list, tile.item.query), keys = comb_rows(list, tile.item.key);
      KeyRange seen{Index(keys.size()), 0};
      for (Index i = tile.begin; i < tile.begin + tile.count; ++i) {
        for (Index j = 0; j < Index(keys.size()); ++j) {
          if (!sees(tile.item.band, queries[std::size_t(i)].t, keys[std::size_t(j)].t)) continue;
          seen = {std::min(seen.begin, j), std::max(seen.end, j + 1)};
        }
      }
      if (seen.end > 0) seen.begin -= seen.begin % kernels::granule;
      const TeamKeys& found = teams[std::size_t(team)];
      EXPECT_EQ(found.queries, tile.count);
      EXPECT_EQ(std::max<Index>(0, found.keys.end - found.keys.begin), std::max<Index>(0, seen.end - seen.begin));
      EXPECT_TRUE(seen.end == 0 || found.keys.begin == seen.begin) << team;
    }
  }
}

TEST(KeySplitOfWork, IsForLaunchesThatLeaveRoom) {
  core::WorkList list;
  list.runs = {{0, 0, 1, 100}, {0, 0, 1, 64000}};
  list.items = {{{0, 1, 100}, {1, 1, 64000}, 0, 0, 1, 2}};
  const kernels::device::DeviceWork work(list, 1, kernels::device::Owner::rows, 64);  // 4 teams
  EXPECT_TRUE(split_keys(work, 64, {4, plenty}).parts.empty());
  const KeySplit split = split_keys(work, 64, {8, plenty});
  EXPECT_EQ(split.parts.size(), 8u);
  EXPECT_EQ(split.partial_states, 2 * (64 + 36) * 2) << "two parts of each tile and head";
  list.runs[1].count = list.items[0].key.count = 100;
  EXPECT_TRUE(
      split_keys(kernels::device::DeviceWork(list, 1, kernels::device::Owner::rows, 64), 64, {8, plenty}).parts.empty())
      << "two tiles of keys";
}

TEST(PartialStatesMemory, IsCountedAndGivenBack) {
  using Partial = kernels::cuda::PartialStates<float>;
  const auto peak = [] { return core::memory_ledger().peak_by_purpose()["partial states"]; };
  kernels::device::release_kept_lists();
  core::memory_ledger().reset_peak();
  const WorkCase test = few_queries_case(8, DType::bfloat16, core::Precision::float32);
  TwinRun whole, split{.parts = 2};
  BFloat16Products::twin(test, whole);
  EXPECT_EQ(peak(), 0) << "no key is split";
  BFloat16Products::twin(test, split);
  EXPECT_GE(peak() * 3, split.partial_states * Partial::bytes_of_one(8)) << "of three calls";
  EXPECT_LE(peak(), 1 << 16);
  kernels::device::release_kept_lists();
  core::memory_ledger().reset_peak();
  EXPECT_EQ(peak(), 0);
}

}  // namespace
}  // namespace annulus::test
