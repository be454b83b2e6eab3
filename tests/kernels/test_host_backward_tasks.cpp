// Cutting work lists into backward tasks, and what attend_backward() promises its caller about poll, threads and
// memory.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

#include "annulus/core/error.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "kernels/host_backward_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using kernels::host::BackwardTask;
using kernels::host::make_backward_tasks;

/// Three items of 3 heads: 700 rows with 1000 keys, 10 rows with 20 keys, and 10 rows without keys.
core::WorkList three_items() {
  core::WorkList list;
  list.runs = {{0, 0, 1, 700}, {0, 0, 1, 1000}, {0, 700, 1, 10}, {0, 1000, 1, 20}};
  core::WorkItem item;
  item.query = {0, 1, 700};
  item.key = {1, 1, 1000};
  item.head_count = 3;
  item.band = Band::upto;
  list.items = {item};
  item.query = {2, 1, 10};
  item.key = {3, 1, 20};
  list.items.push_back(item);
  item.key = {0, 0, 0};
  list.items.push_back(item);
  return list;
}

TEST(BackwardTasks, CoverEveryKeyOnceInDescendingOrder) {
  const core::WorkList list = three_items();
  for (const Index threads : {1, 2, 16}) {
    const std::vector<BackwardTask> tasks = make_backward_tasks(list, 2, 192, 48, threads);
    std::map<std::pair<Index, Index>, Index> rest, place;  // by (batch, item): keys left, last number
    for (const BackwardTask& task : tasks) {
      const std::pair<Index, Index> of{task.batch, task.item};
      if (!rest.count(of)) {
        EXPECT_TRUE(task.highest);
        rest[of] = list.items[std::size_t(task.item)].key.count;
      } else {
        EXPECT_FALSE(task.highest);
        EXPECT_EQ(task.number, place[of] + 1);
      }
      place[of] = task.number;
      EXPECT_EQ(task.first + task.count, rest[of]);
      EXPECT_EQ(task.first % 48, 0);
      EXPECT_LE(task.count, 192);
      rest[of] = task.first;
    }
    EXPECT_EQ(rest.size(), 4u) << "two items in two batch entries";
    for (const auto& [of, keys] : rest) EXPECT_EQ(keys, 0);
  }
}

TEST(BackwardTasks, EqualItemsTakeTurns) {
  core::WorkList list = three_items();
  list.items = {list.items[0], list.items[0]};
  const std::vector<BackwardTask> tasks = make_backward_tasks(list, 1, 192, 48, 1);
  for (std::size_t i = 0; i < tasks.size(); ++i) EXPECT_EQ(tasks[i].item, Index(i % 2));
}

TEST(BackwardTasks, FewKeysAreCutForManyThreads) {
  const BackwardCase test = backward_case(4000, 4000, 64, Band::all);
  EXPECT_EQ(make_backward_tasks(test.calls[0], 1, 768, 96, 1).size(), 6u);
  EXPECT_GE(make_backward_tasks(test.calls[0], 1, 768, 96, 16).size(), 16u);
}

TEST(HostBackwardCaller, PollIsCalledByItsThreadWhileWorkGoesOn) {
  BackwardCase test = backward_case(960, 600, 64, Band::all);
  test.fill_all();
  int polls = 0;
  const auto caller = std::this_thread::get_id();
  const auto poll = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++polls;
  };
  host_gradients(test, stored_forward(test), {.set = InstructionSet::baseline, .poll = poll});
  // The caller polls at the end; if it is the only thread, also after each chunk of rows.
  EXPECT_GE(polls, Kokkos::DefaultHostExecutionSpace().concurrency() == 1 ? 11 : 1);
}

TEST(HostBackwardCaller, LittleWorkLiesBetweenTwoPolls) {
  // A slow core, of 14 GFLOP/s, does 0.14 GFLOP in 10 ms: polls that often let messages make progress in time.
  constexpr double most_flops = 1.4e8;
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const Index head_dim : {8, 64, 256, 576}) {
      const Index n = head_dim == 8 ? 6000 : 2000;
      BackwardCase test = backward_case(n, n, head_dim, Band::all);
      test.precision = precision;
      test.fill_all();
      int polls = 0;
      const kernels::ReferenceResult forward{test.dout, test.dlse};  // any numbers: only polls are counted
      host_gradients(test, forward, {.poll = [&] { ++polls; }});
      const double least = 10.0 * double(head_dim * n * n) / most_flops;
      EXPECT_GE(least, 8) << "too little work to tell";
      EXPECT_GE(polls, Kokkos::DefaultHostExecutionSpace().concurrency() == 1 ? int(least) : 1) << head_dim;
    }
  }
}

TEST(HostBackwardCaller, AnErrorInPollReachesTheCaller) {
  BackwardCase test = backward_case(960, 1200, 8, Band::all);
  test.fill_all();
  const kernels::ReferenceResult forward = stored_forward(test);
  // The pause lets other threads start tasks that wait for the failing one: they must not wait for ever.
  const auto fail = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw std::runtime_error("peer gone");
  };
  EXPECT_THROW(host_gradients(test, forward, {.poll = fail}), std::runtime_error);
  EXPECT_TRUE(std::isfinite(host_gradients(test, forward).dq[0]));  // and the next call works
}

TEST(HostBackwardCaller, ScratchStaysWithinWhatIsAnnounced) {
  // Threads keep the most that any call took, so what is held is compared with the most announced so far.
  Index announced = 0;
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    BackwardCase test = backward_case(300, 2500, 256, Band::all);
    test.precision = Precision::float64;
    test.fill_all();
    const kernels::ReferenceResult forward{test.dout, test.dlse};
    host_gradients(test, forward, {set});
    const auto peaks = core::memory_ledger().peak_by_purpose();
    announced =
        std::max(announced, kernels::host::host_attend_backward_bytes(test.shape, 300, test.precision, false, set));
    const Index held = peaks.at("kernel scratch");
    EXPECT_LE(held, announced);
    EXPECT_GE(2 * held, announced / Kokkos::DefaultHostExecutionSpace().concurrency()) << "a useless bound";
    host_gradients(test, forward, {set});
    EXPECT_EQ(core::memory_ledger().peak_by_purpose().at("kernel scratch"), held);
  }
}

TEST(HostBackwardCaller, RefusesWhatItHasNoRoomFor) {
  BackwardCase test = backward_case(2, 2, 577, Band::all);
  test.fill_all();
  EXPECT_THROW(host_gradients(test, stored_forward(test)), core::Error);
  test = backward_case(2, 2, 8, Band::all);
  test.fill_all();
  const DeviceTensor a = to_device(test.q, DType::float32, 2, 1, 8), b = to_device(test.q, DType::float16, 2, 1, 8);
  EXPECT_THROW(kernels::host::host_backward_delta(test.shape, 2, a.view, b.view, {}, a.view), core::Error);
}

}  // namespace
}  // namespace annulus::test
