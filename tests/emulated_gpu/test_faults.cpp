// Whatever a GPU forbids or leaves to chance ends the program; the message names the thread, the line and the reason.
#include <gtest/gtest.h>

#include "ptx.hpp"

namespace emulated_gpu::test {
namespace {

const std::string own_word = "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r5, %r3, %r2;\n";

TEST(EmulatedFaultsDeathTest, MemoryThatNobodyHas) {
  EXPECT_DEATH(run_text({"ld.global.u64 %x4, [%x2+8];\n" + store_x4}, 1),
               "thread 0 of block 0,0,0 touches 8 bytes at .*, which no allocation has\n *in line .*ld.global.u64");
  EXPECT_DEATH(run_text({"ld.global.u64 %x4, [%x2+-8];\n" + store_x4}, 1), "no allocation has");
  EXPECT_DEATH(run_text({"mov.u32 %r3, s;\nld.shared.u32 %r4, [%r3+16];\n" + store_r4, "", 16}, 1),
               "touches 4 bytes at 16 of 16 bytes of shared memory");
  EXPECT_DEATH(run_text({"ld.global.u32 %r4, [%x2+2];\n" + store_r4}, 1), "touches 4 bytes at .*, no multiple of it");
}

TEST(EmulatedFaultsDeathTest, HostsThatUseDeviceMemory) {
  const std::uint64_t address = allocate(64);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(address) = 1, "");
  EXPECT_NE(found(address, 64), nullptr);
  free_device(address);
  EXPECT_EQ(found(address, 8), nullptr);
}

TEST(EmulatedFaultsDeathTest, RacesInSharedMemory) {
  setenv("EMULATED_GPU_RACES", "1", 1);
  const std::string store = own_word + "st.shared.u32 [%r5], %r1;\n",
                    load = "xor.b32 %r6, %r5, 128;\nld.shared.u32 %r4, [%r6];\n";
  const auto text = [&](const std::string& between) { return Text{store + between + load + store_r4, "", 256}; };
  EXPECT_EQ(run_text(text("bar.sync 0;\n"), 64)[0], 32U);
  EXPECT_DEATH(run_text(text(""), 64),
               "thread 32 of block 0,0,0 races with thread 0, which read byte 128 of shared memory");
  // Two lanes of one warp race, too: only by chance do they run together.
  const std::string neighbour = "xor.b32 %r6, %r5, 4;\nld.shared.u32 %r4, [%r6];\n";
  EXPECT_EQ(run_text({store + "bar.warp.sync -1;\n" + neighbour + store_r4, "", 256}, 32)[0], 1U);
  EXPECT_DEATH(run_text({store + neighbour + store_r4, "", 256}, 32), "races with thread");
  // One thread reads a word, then another one writes it.
  EXPECT_DEATH(run_text({own_word + "ld.shared.u32 %r4, [s];\nst.shared.u32 [s], %r1;\n" + store_r4, "", 256}, 64),
               "races with a thread, which read byte 0");
}

// Nothing orders the blocks of one launch, in whatever order they run; launches run one after another.
TEST(EmulatedFaultsDeathTest, RacesInDeviceMemory) {
  setenv("EMULATED_GPU_RACES", "1", 1);
  const std::string own = "mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %x6, %r2, 8;\nadd.s64 %x6, %x1, %x6;\n";
  const auto run_two = [&](const std::string& text) { return run_text({own + text}, 1, {0}, 2); };
  const std::string all_add = "atom.global.add.u32 %r4, [%x1], 1;\n";
  run_two("st.global.u64 [%x6], %x2;\nld.global.u64 %x4, [%x6];\n");
  run_two("ld.global.u64 %x4, [%x1];\n");  // both blocks read it; the next launch has the same memory
  run_two("st.global.u64 [%x6], %x2;\n");
  EXPECT_EQ(run_two(all_add)[0] & 0xffffffffU, 1U);  // 0xffffffff, and 1 twice
  EXPECT_DEATH(
      run_two("st.global.u64 [%x1], %x2;\n"),
      "thread 0 of block 1,0,0 races with a thread of another block, which wrote byte 0 of 16 bytes of device");
  EXPECT_DEATH(run_two("ld.global.u64 %x4, [%x1+8];\nst.global.u64 [%x6], %x2;\n"), "another block, which read byte 8");
  EXPECT_DEATH(run_two("st.global.u64 [%x6], %x2;\nld.global.u64 %x4, [%x1];\n"), "another block, which wrote byte 0");
  EXPECT_DEATH(run_two(all_add + "ld.global.u32 %r4, [%x1];\n"), "another block, which read byte 0");
  // Two lanes of one block, in a launch of one block: a barrier of the warp is enough.
  const std::string mine = "add.s64 %x6, %x1, %x3;\nst.global.u64 [%x6], %x2;\n", first = "ld.global.u64 %x4, [%x1];\n";
  run_text({mine + "bar.warp.sync -1;\n" + first}, 2);
  EXPECT_DEATH(run_text({mine + first}, 2), "thread 1 of block 0,0,0 races with thread 0, which wrote byte 0");
}

TEST(EmulatedFaultsDeathTest, ThreadsThatWaitForEver) {
  EXPECT_DEATH(run_text({"setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2, 64;\n"}, 64),
               "is stuck.*\n.*\n  thread 32 in line");
  EXPECT_DEATH(run_text({"setp.lt.u32 %p1, %r1, 16;\n@%p1 bra $L_a;\nbar.sync 0;\n$L_a:\nbar.warp.sync -1;\n"}, 64),
               "is stuck");
}

TEST(EmulatedFaultsDeathTest, WhatIsNotKnown) {
  EXPECT_DEATH(run_text({"sqrt.rn.ftz.f16 %h1, %h2;\n"}, 1), "PTX that is not known here: sqrt.ftz.f16\n *in line");
  EXPECT_DEATH(run_text({"trap;\n"}, 1), "is trapped");
}

}  // namespace
}  // namespace emulated_gpu::test
