#include "annulus/core/free_blocks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace annulus::core {
namespace {

/// A GPU with `room` bytes, and what was asked of its driver.
struct Driver {
  Index room = 1000;
  std::map<void*, Index> held = {};
  std::vector<Index> asked = {};
  int given_back = 0;
  Index held_bytes = 0;

  FreeBlocks blocks{[this](Index bytes) -> void* {
                      asked.push_back(bytes);
                      if (held_bytes + bytes > room) return nullptr;
                      void* block = new char;
                      held[block] = bytes;
                      held_bytes += bytes;
                      return block;
                    },
                    [this](void* block) {
                      EXPECT_EQ(held.count(block), 1u) << "given back twice, or never had";
                      ++given_back;
                      held_bytes -= held.at(block);
                      held.erase(block);
                      delete static_cast<char*>(block);
                    }};

  ~Driver() {
    blocks.clear();
    EXPECT_EQ(held_bytes, 0);
  }
};

TEST(FreeBlocks, TheDriverIsAskedOnceForASizeThatComesAgain) {
  Driver driver;
  void* const first = driver.blocks.take(100);
  void* const other = driver.blocks.take(100);
  EXPECT_NE(first, other);
  driver.blocks.give(first, 100);
  EXPECT_EQ(driver.blocks.take(100), first);
  EXPECT_EQ(driver.asked, (std::vector<Index>{100, 100}));
  driver.blocks.give(first, 100);
  driver.blocks.give(other, 100);
  EXPECT_EQ(driver.given_back, 0);
}

TEST(FreeBlocks, WhatIsHeldIsNeverMoreThanWasOnceInUse) {
  Driver driver;
  void* const a = driver.blocks.take(100);
  driver.blocks.give(a, 100);
  void* const b = driver.blocks.take(60);  // a is freed
  EXPECT_EQ(driver.held_bytes, 60);
  void* const c = driver.blocks.take(30);
  driver.blocks.give(c, 30);
  void* const d = driver.blocks.take(40);  // c is freed: 60 + 30 + 40 > 100
  EXPECT_EQ(driver.held_bytes, 100);
  driver.blocks.give(b, 60);
  driver.blocks.give(d, 40);
  EXPECT_EQ(driver.held_bytes, 100);
  void* const e = driver.blocks.take(20);  // d is freed, the smallest that makes enough room
  EXPECT_EQ(driver.held_bytes, 80);
  driver.blocks.give(e, 20);
}

TEST(FreeBlocks, WhatIsKeptGoesBeforeMemoryIsLacking) {
  Driver driver{.room = 150};
  std::vector<void*> small;
  for (int i = 0; i < 3; ++i) small.push_back(driver.blocks.take(50));
  for (void* block : small) driver.blocks.give(block, 50);
  driver.room = 130;  // another process has taken memory
  void* const large = driver.blocks.take(90);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(driver.held_bytes, 90);
  EXPECT_EQ(driver.blocks.take(60), nullptr);
  driver.blocks.give(large, 90);
  void* const again = driver.blocks.take(60);
  EXPECT_NE(again, nullptr);
  driver.blocks.give(again, 60);
}

TEST(FreeBlocks, ClearGivesAllBackAndForgetsThePeak) {
  Driver driver;
  void* const used = driver.blocks.take(10);
  void* const block = driver.blocks.take(100);
  driver.blocks.give(block, 100);
  driver.blocks.clear();
  EXPECT_EQ(driver.held_bytes, 10);
  void* const next = driver.blocks.take(20);
  driver.blocks.give(next, 20);
  driver.blocks.give(driver.blocks.take(25), 25);
  EXPECT_EQ(driver.held_bytes, 35) << "20 went when 25 came";
  driver.blocks.give(used, 10);
}

TEST(FreeBlocks, BehindTheEndNothingIsKept) {
  Driver driver;
  void* const used = driver.blocks.take(10);
  driver.blocks.give(driver.blocks.take(20), 20);
  driver.blocks.stop();
  EXPECT_EQ(driver.held_bytes, 10);
  driver.blocks.give(used, 10);
  EXPECT_EQ(driver.held_bytes, 0);
}

TEST(FreeBlocks, AnyOrderHoldsTheBound) {
  Driver driver{.room = 100000};
  std::mt19937 random(7);
  std::vector<std::pair<void*, Index>> used;
  Index in_use = 0, most = 0;
  std::map<void*, int> owners;
  for (int step = 0; step < 20000; ++step) {
    if (used.empty() || (random() % 2 == 0 && used.size() < 12)) {
      const Index bytes = 10 + Index(random() % 8) * 7;
      void* const block = driver.blocks.take(bytes);
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(++owners[block], 1) << "two owners of one block";
      ASSERT_EQ(driver.held.at(block), bytes);
      used.emplace_back(block, bytes);
      in_use += bytes;
      most = std::max(most, in_use);
    } else {
      std::swap(used[random() % used.size()], used.back());
      const auto [block, bytes] = used.back();
      used.pop_back();
      --owners[block];
      in_use -= bytes;
      driver.blocks.give(block, bytes);
    }
    ASSERT_LE(driver.held_bytes, most);
  }
  EXPECT_LT(driver.asked.size(), 5000u) << "most blocks come again";
  for (const auto& [block, bytes] : used) driver.blocks.give(block, bytes);
}

}  // namespace
}  // namespace annulus::core
