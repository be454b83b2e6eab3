// Cutting work lists into tasks, walking rows, and what attend() promises its caller about poll and threads.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <map>
#include <stdexcept>
#include <thread>

#include "annulus/core/error.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "kernels/host_case.hpp"

namespace annulus::test {
namespace {

using core::RowMap;
using core::WorkItem;
using core::WorkList;
using kernels::host::make_tasks;
using kernels::host::RowWalk;
using kernels::host::Task;
using kernels::host::VisibleKeys;

/// Two items: 1000 rows on 3 heads seeing 700 keys causally, and 10 rows seeing none.
WorkList two_items() {
  WorkList list;
  list.runs = {{5, 0, 1, 400}, {500, 400, 2, 600}, {0, 0, 1, 700}, {0, 0, 1, 10}, {50, 0, 1, 20}};
  WorkItem item;
  item.query = {0, 2, 1000};
  item.key = {2, 1, 700};
  item.head_count = 3;
  item.band = core::Band::upto;
  list.items = {item};
  item.query = {3, 1, 10};
  item.key = {4, 1, 20};
  list.items.push_back(item);
  return list;
}

TEST(HostTasks, EveryRowIsInOneTaskAndTasksAreInOrder) {
  const WorkList list = two_items();
  for (const Index max_rows : {1, 100, 1000, 5000}) {
    for (const Index threads : {1, 2, 64}) {
      const std::vector<Task> tasks = make_tasks(list, 2, max_rows, threads);
      std::map<std::pair<Index, Index>, int> covered;  // (batch, row)
      Index last_cost = tasks.front().cost;
      for (const Task& task : tasks) {
        EXPECT_EQ(task.item, 0);  // item 1 sees nothing
        EXPECT_LE(task.count * 3, std::max<Index>(3, max_rows));
        EXPECT_LE(task.cost, last_cost);
        last_cost = task.cost;
        for (Index i = task.first; i < task.first + task.count; ++i) ++covered[{task.batch, i}];
        // The last row's comb index: 5 + i in the first run, 500 + (i - 400) in the second.
        const Index last = task.first + task.count - 1, t = last < 400 ? 5 + last : 100 + last;
        EXPECT_EQ(task.key_end - task.key_begin, std::min<Index>(700, t + 1));
      }
      EXPECT_EQ(covered.size(), 2000u);
      for (const auto& [row, times] : covered) EXPECT_EQ(times, 1) << row.first << " " << row.second;
    }
  }
}

TEST(HostTasks, ManyThreadsGetSeveralTasksEachButNotTinyOnes) {
  const HostCase test = plain_case(4096, 4096, 64, true);
  EXPECT_EQ(make_tasks(test.calls[0], 8, 2048, 1).size(), 16u);
  const std::vector<Task> tasks = make_tasks(test.calls[0], 8, 2048, 16);
  EXPECT_GE(tasks.size(), 3 * 16u);
  for (const Task& task : tasks) EXPECT_GE(task.count, 64);
}

TEST(RowWalk, SkipsAndStepsThroughRuns) {
  WorkList list;
  list.runs = {{9, 9, 9, 9}, {0, 10, 2, 3}, {7, 100, 1, 1}, {20, 5, 5, 2}};
  const RowMap map{1, 3, 6};
  const std::vector<CombRow> rows = comb_rows(list, map);
  for (Index skipped = 0; skipped < 6; ++skipped) {
    RowWalk walk(list, map);
    walk.skip(skipped);
    for (Index i = skipped; i < 6; ++i) {
      const auto [t, row] = walk.next();
      EXPECT_EQ(t, rows[std::size_t(i)].t);
      EXPECT_EQ(row, rows[std::size_t(i)].row);
    }
  }
}

TEST(RowWalk, CountsTheKeysThatARowSees) {
  WorkList list;
  list.runs = {{2, 0, 1, 2}, {7, 0, 1, 3}};  // t = 2 3 7 8 9
  const Index expected[] = {0, 0, 1, 2, 2, 2, 2, 3, 4, 5, 5, 5};
  VisibleKeys visible(list, {0, 2, 5});
  for (Index t = 0; t < 12; ++t) EXPECT_EQ(visible.at(t), expected[t]) << t;
}

TEST(HostAttendCaller, PollIsCalledByItsThreadWhileWorkGoesOn) {
  HostCase test = plain_case(600, 2048, 64, false);
  test.fill();
  int polls = 0;
  const auto caller = std::this_thread::get_id();
  const auto poll = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++polls;
  };
  host_answer(test, InstructionSet::baseline, poll);
  // The caller polls at the end; if it is the only thread, also after each of the 8 tiles. Otherwise other threads may
  // take all tasks, and how often the caller polls is not known.
  EXPECT_GE(polls, Kokkos::DefaultHostExecutionSpace().concurrency() == 1 ? 9 : 1);
}

TEST(HostAttendCaller, LittleWorkLiesBetweenTwoPolls) {
  // A slow core, of 14 GFLOP/s, does 0.14 GFLOP in 10 ms: polls that often let messages make progress in time.
  constexpr double most_flops = 1.4e8;
  for (const core::Precision precision : {core::Precision::float32, core::Precision::float64}) {
    for (const Index head_dim : {8, 64, 256, 576}) {
      const Index rows = 3000, keys = head_dim == 8 ? 12000 : 3000;
      HostCase test = plain_case(rows, keys, head_dim, false);
      test.precision = precision;
      test.fill();
      int polls = 0;
      host_answer(test, kernels::host::best_instruction_set(), [&] { ++polls; });
      const double least = 4.0 * double(head_dim * rows * keys) / most_flops;
      EXPECT_GE(least, 8) << "too little work to tell";
      // With several threads the others may take all tasks; then the caller polls at intervals of time.
      EXPECT_GE(polls, Kokkos::DefaultHostExecutionSpace().concurrency() == 1 ? int(least) : 1) << head_dim;
    }
  }
}

TEST(HostAttendCaller, AnErrorInPollReachesTheCaller) {
  HostCase test = plain_case(200, 200, 8, true);
  test.fill();
  const auto poll = [] { throw std::runtime_error("peer gone"); };
  EXPECT_THROW(host_answer(test, InstructionSet::baseline, poll), std::runtime_error);
  const auto before = host_answer(test, InstructionSet::baseline);  // and the next call works
  EXPECT_TRUE(std::isfinite(before.out[0]));
}

TEST(HostAttendCaller, ScratchIsKeptFromCallToCall) {
  HostCase test = plain_case(200, 200, 64, true);
  test.fill();
  host_answer(test, InstructionSet::baseline);
  const Index held = core::memory_ledger().current();
  EXPECT_GT(held, 0);
  const auto once = host_answer(test, InstructionSet::baseline);
  EXPECT_EQ(core::memory_ledger().current(), held);
  const auto twice = host_answer(test, InstructionSet::baseline);
  EXPECT_EQ(once.out, twice.out);
}

TEST(HostAttendCaller, RefusesHeadSizesItHasNoRoomFor) {
  HostCase test = plain_case(2, 2, 577, false);
  test.fill();
  EXPECT_THROW(host_answer(test, InstructionSet::baseline), core::Error);
}

}  // namespace
}  // namespace annulus::test
