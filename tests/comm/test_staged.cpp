// Staged messages: what waits for what, on a device whose kernels and copies happen late (support/fake_device.hpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "annulus/comm/exchange.hpp"
#include "annulus/comm/host_pool.hpp"
#include "support/fake_device.hpp"
#include "support/stamped_block.hpp"

namespace annulus::comm {
namespace {

/// While an object lives, messages are staged for a fake device that queues kernels as well as copies.
struct OnDevice {
  explicit OnDevice(std::uint64_t seed) : device(seed, /*real_kernels=*/false) {
    stage_by({&device.to_host(), &device.to_device()});
  }
  ~OnDevice() {
    device.finish();
    stage_by({});
  }
  test::FakeDevice device;
};

RowBlock numbers(std::vector<int>& all) { return {all.data(), 2, 8, 4, {2, 7}}; }

TEST(Staged, LeavesWithWhatKernelsMadeAndBeforeTheyMakeMore) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    OnDevice on(seed);
    std::vector<int> rows(16, 0);
    on.device.launch([&] { std::fill(rows.begin(), rows.end(), 7); });
    Staged leaving(numbers(rows));
    leaving.load();
    leaving.wait_until_loaded();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(static_cast<const int*>(leaving.block().data)[i], 7) << "seed " << seed;
    EXPECT_EQ(leaving.block().held, 5);
  }
}

TEST(Staged, ArrivesBehindTheKernelsThatReadTheOldRowsAndBeforeThoseThatReadTheNew) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    OnDevice on(seed);
    std::vector<int> rows(16, 1), before, after;
    on.device.launch([&] { before = rows; });
    Staged arriving(numbers(rows));
    std::fill_n(static_cast<int*>(arriving.block().data), 10, 7);  // as MPI would write them
    arriving.store();
    arriving.arrive();
    on.device.launch([&] { after = rows; });
    on.device.finish();
    EXPECT_EQ(before, std::vector<int>(16, 1)) << "seed " << seed;
    EXPECT_EQ(after, (std::vector<int>{1, 1, 7, 7, 7, 7, 7, 1, 1, 1, 7, 7, 7, 7, 7, 1})) << "seed " << seed;
  }
}

// Kernels that are launched while a message travels do not use its rows. If copies waited for such kernels, nothing
// would overlap.
TEST(Staged, DoesNotWaitForKernelsThatWereLaunchedMeanwhile) {
  OnDevice on(1);
  std::vector<int> rows(16, 1);
  bool is_done = false;
  Staged arriving(numbers(rows)), leaving(numbers(rows));
  on.device.launch([&] {
    EXPECT_EQ(rows[2], 7);
    is_done = true;
  });
  std::fill_n(static_cast<int*>(arriving.block().data), 10, 7);
  arriving.store();
  leaving.load();
  on.device.finish_copies();
  EXPECT_EQ(on.device.copies_left(), 0u) << "a copy waits for the kernel";
  EXPECT_FALSE(is_done);
  on.device.finish();
  EXPECT_TRUE(is_done);
}

TEST(HostPool, MemoryIsHandedOutAgainWhenItsCopiesAreDone) {
  OnDevice on(3);
  std::vector<int> rows(16, 1);
  const auto stage = [&] {
    Staged arriving(numbers(rows));
    arriving.store();
    return arriving.block().data;
  };
  std::set<void*> memory{stage(), stage()};
  EXPECT_EQ(memory.size(), 2u) << "the first copy has not happened";
  const Index kept = kept_host_bytes();
  for (int i = 0; i < 5; ++i) {
    on.device.finish();
    EXPECT_TRUE(memory.contains(stage()));
  }
  on.device.finish();
  EXPECT_EQ(kept_host_bytes(), kept);
  release_host_memory();
  EXPECT_EQ(kept_host_bytes(), 0);
}

// While a rank waits for one exchange, it must also post the sends of another. Otherwise ranks could wait for ever.
TEST(StagedExchanges, MayBeWaitedForInAnyOrder) {
  const Communicator comm(MPI_COMM_WORLD);
  test::FakeDevice device(5 + std::uint64_t(comm.rank()), true);
  stage_by({&device.to_host(), &device.to_device()});
  const int next = core::wrap(comm.rank() + 1, comm.size()), before = core::wrap(comm.rank() - 1, comm.size());
  for (int round = 0; round < 20; ++round) {
    test::Block own(2, 4), one(2, 4), other(2, 4);
    own.fill([&](Index p, Index r, Index c) { return test::stamp(comm.rank(), p, r, c); });
    Exchange first(comm), second(comm);
    const auto whole = [](const test::Block& block) { return block.rows({0, 4}); };
    first.start({{next, whole(own)}}, {{before, whole(one)}}, 1);
    second.start({{before, whole(own)}}, {{next, whole(other)}}, 2);
    (comm.rank() % 2 == 0 ? first : second).wait();
    (comm.rank() % 2 == 0 ? second : first).wait();
    EXPECT_EQ(one.at(1, 3, 2), test::stamp(before, 1, 3, 2));
    EXPECT_EQ(other.at(1, 3, 2), test::stamp(next, 1, 3, 2));
  }
  stage_by({});
}

// Messages of one tag match in the order in which they were started, although their copies end in any order.
TEST(StagedExchanges, KeepTheOrderOfMessagesOfOneTag) {
  const Communicator comm(MPI_COMM_WORLD);
  test::FakeDevice device(7 + std::uint64_t(comm.rank()), true);
  stage_by({&device.to_host(), &device.to_device()});
  const int next = core::wrap(comm.rank() + 1, comm.size()), before = core::wrap(comm.rank() - 1, comm.size());
  std::deque<Exchange> exchanges;
  std::deque<test::Block> sent, received;
  for (int i = 0; i < 6; ++i) {
    sent.emplace_back(1, 3).fill(
        [&](Index p, Index r, Index c) { return test::stamp(100 * i + comm.rank(), p, r, c); });
    received.emplace_back(1, 3);
    exchanges.emplace_back(comm).start({{next, sent.back().rows({0, 3})}}, {{before, received.back().rows({0, 3})}}, 0);
  }
  for (int i = 5; i >= 0; --i) {
    exchanges[std::size_t(i)].wait();
    EXPECT_EQ(received[std::size_t(i)].at(0, 2, 1), test::stamp(100 * i + before, 0, 2, 1));
  }
  stage_by({});
}

}  // namespace
}  // namespace annulus::comm
