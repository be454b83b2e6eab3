// What lanes and warps do together.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ptx.hpp"

namespace emulated_gpu::test {
namespace {

// Lane i runs through the loop i times; all lanes meet again after it, and only then read each other's sums.
TEST(EmulatedWarps, LanesPartAndMeet) {
  const auto out = run_text({"mov.u32 %r2, 0;\nmov.u32 %r3, 0;\n"
                             "$L_loop:\nsetp.ge.u32 %p1, %r2, %r1;\n@%p1 bra $L_out;\n"
                             "add.u32 %r2, %r2, 1;\nadd.u32 %r3, %r3, %r2;\nbra $L_loop;\n"
                             "$L_out:\nshfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;\n" +
                             store_r4},
                            32);
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i ^ 1) * ((i ^ 1) + 1) / 2) << i;
}

TEST(EmulatedWarps, ShufflesAndVotes) {
  const auto shuffled = [](const std::string& how) {
    return run_text({"shfl.sync." + how + ", -1;\nselp.u32 %r5, 100, 0, %p1;\nadd.u32 %r4, %r4, %r5;\n" + store_r4},
                    32);
  };
  EXPECT_EQ(shuffled("up.b32 %r4|%p1, %r1, 3, 0")[10], 107U);
  EXPECT_EQ(shuffled("up.b32 %r4|%p1, %r1, 3, 0")[2], 2U);
  EXPECT_EQ(shuffled("down.b32 %r4|%p1, %r1, 3, 31")[10], 113U);
  EXPECT_EQ(shuffled("down.b32 %r4|%p1, %r1, 3, 31")[30], 30U);
  EXPECT_EQ(shuffled("idx.b32 %r4|%p1, %r1, 5, 6175")[13], 113U);  // segments of 8: 0x181f
  const auto voted = [](const std::string& how) {
    return run_text({"setp.gt.u32 %p2, %r1, 3;\nvote.sync." + how + ", -1;\n" + store_r4}, 32)[9];
  };
  EXPECT_EQ(voted("ballot.b32 %r4, %p2"), 0xfffffff0U);
  EXPECT_EQ(voted("ballot.b32 %r4, !%p2"), 0xfU);
  EXPECT_EQ(
      run_text({"setp.gt.u32 %p2, %r1, 30;\nvote.sync.any.pred %p1, %p2, -1;\nselp.u32 %r4, 1, 0, %p1;\n" + store_r4},
               32)[0],
      1U);
}

// 96 threads, three warps: thread i reads what thread 95 - i wrote.
TEST(EmulatedWarps, ABarrierStandsBetweenWarps) {
  const Text text{
      "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r5, %r3, %r2;\nst.shared.u32 [%r5], %r1;\nbar.sync 0;\n"
      "sub.u32 %r6, 380, %r2;\nadd.u32 %r6, %r3, %r6;\nld.shared.u32 %r4, [%r6];\n" +
          store_r4,
      "", 384};
  for (const char* order : {"0", "1"}) {
    setenv("EMULATED_GPU_DOWNWARDS", order, 1);
    setenv("EMULATED_GPU_RACES", "1", 1);
    const auto out = run_text(text, 96);
    for (std::uint64_t i = 0; i < 96; ++i) EXPECT_EQ(out[i], 95 - i);
  }
}

TEST(EmulatedWarps, AtomicsOfAllThreads) {
  const Text text{
      "mov.u32 %r2, 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], %r2;\nbar.sync 0;\n"
      "red.shared.add.u32 [s], %r1;\nbar.sync 0;\nld.shared.u32 %r4, [s];\n" +
          store_r4,
      "", 16};
  EXPECT_EQ(run_text(text, 100)[57], 4950U);
}

const std::string copy_16 =
    "mov.u32 %r3, s;\nmov.u32 %r2, 16;\ncp.async.cg.shared.global [%r3], [%x2], 16, %r2;\n"
    "cp.async.commit_group;\n";

// A copy has arrived after the wait for it, not before; a copy of fewer than 16 bytes is filled up with zeros.
TEST(EmulatedWarps, AsynchronousCopies) {
  const std::vector<std::uint64_t> in{11, 22};
  const auto copied = [&](std::string text) {
    return run_text({text + "ld.shared.u64 %x4, [s+8];\n" + store_x4, "", 16}, 1, in)[0];
  };
  EXPECT_EQ(copied(copy_16 + "cp.async.wait_group 0;\n"), 22U);
  EXPECT_EQ(copied(copy_16 + "cp.async.wait_group 1;\n"), ~std::uint64_t(0));
  EXPECT_EQ(copied(copy_16), ~std::uint64_t(0));
  std::string half = copy_16;
  half.replace(half.find("%r2, 16"), 7, "%r2, 8");
  EXPECT_EQ(copied(half + "cp.async.wait_all;\n"), 0U);
}

// Row i of an 8 x 8 matrix has the numbers 8 i + j. Lane l gets two of row l / 4, or of column l / 4.
TEST(EmulatedWarps, MatricesAreLoaded) {
  for (const bool transposed : {false, true}) {
    const Text text{
        "mov.u32 %r3, s;\nshl.b32 %r2, %r1, 2;\nadd.u32 %r2, %r3, %r2;\nshl.b32 %r5, %r1, 1;\nadd.u32 %r6, %r5, 1;\n"
        "shl.b32 %r6, %r6, 16;\nor.b32 %r5, %r5, %r6;\nst.shared.u32 [%r2], %r5;\nbar.sync 0;\n"
        "and.b32 %r7, %r1, 7;\nshl.b32 %r7, %r7, 4;\nadd.u32 %r7, %r3, %r7;\n"
        "ldmatrix.sync.aligned.m8n8.x1" +
            std::string(transposed ? ".trans" : "") + ".shared.b16 {%r4}, [%r7];\n" + store_r4,
        "", 128};
    const auto out = run_text(text, 32);
    for (std::uint64_t lane = 0; lane < 32; ++lane) {
      const std::uint64_t row = lane / 4, column = lane % 4 * 2;
      const std::uint64_t low = transposed ? 8 * column + row : 8 * row + column;
      EXPECT_EQ(out[lane], low | (low + (transposed ? 8 : 1)) << 16) << lane;
    }
  }
}

/// The lanes' c[n] of 16 x 8 += 16 x 16 times 16 x 8: `operands` sets a, %r10 to %r13, and b, twice %r14.
std::vector<std::uint64_t> product_of(const std::string& operands, float c, int n) {
  const std::string start = std::to_string(std::bit_cast<std::uint32_t>(c));
  return run_text({operands + "mov.u32 %r4, " + start +
                   ";\nmov.b32 %f1, %r4;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n"
                   "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, "
                   "{%r10, %r11, %r12, %r13}, {%r14, %r14}, {%f1, %f2, %f3, %f4};\ncvt.f64.f32 %d1, %f" +
                   std::to_string(n + 1) + ";\nmov.b64 %x4, %d1;\n" + store_x4},
                  32);
}
std::uint32_t bfloat16(float x) { return std::bit_cast<std::uint32_t>(x) >> 16; }
std::string both(float x) { return std::to_string(bfloat16(x) * 0x10001U) + ";\n"; }

// Each quarter of a holds one of the numbers 1 to 4, column j of b holds j: sums of 16 products, and c = 0.5.
TEST(EmulatedWarps, MatricesAreMultiplied) {
  // Column of b is lane / 4: bfloat16 of it in both halves.
  const std::string operands = "mov.u32 %r10, " + both(1) + "mov.u32 %r11, " + both(2) + "mov.u32 %r12, " + both(3) +
                               "mov.u32 %r13, " + both(4) +
                               "shr.u32 %r2, %r1, 2;\ncvt.rn.f32.u32 %f5, %r2;\ncvt.rn.bf16x2.f32 %r14, %f5, %f5;\n";
  for (int n = 0; n < 4; ++n) {
    const auto out = product_of(operands, 0.5f, n);
    for (std::uint64_t lane = 0; lane < 32; ++lane) {
      const double column = double(lane % 4 * 2 + n % 2), of_row = n < 2 ? 8 * (1 + 3) : 8 * (2 + 4);
      EXPECT_EQ(std::bit_cast<double>(out[lane]), of_row * column + 0.5) << n << ", lane " << lane;
    }
  }
}

// Beside c = 1 the unit has digits down to 2^-25, and the sum has those of a float, down to 2^-23. Every row of a is 1
// at k = 0 (two_of_them: and at k = 1), and 0 elsewhere.
TEST(EmulatedWarps, SumsOfMatrixProductsAreCutOff) {
  const auto sum = [](float c, const std::string& where, float b) {
    const std::string operands = "and.b32 %r3, %r1, 3;\nsetp.eq.u32 %p1, %r3, 0;\nselp.b32 %r10, " + where +
                                 ", 0, %p1;\nmov.u32 %r11, %r10;\nmov.u32 %r12, 0;\nmov.u32 %r13, 0;\nmov.u32 %r14, " +
                                 both(b);
    return std::bit_cast<double>(product_of(operands, c, 0)[5]);
  };
  const std::string one = std::to_string(bfloat16(1)), two_of_them = std::to_string(bfloat16(1) * 0x10001U);
  EXPECT_EQ(sum(1, one, 0x1.cp-23f), 1 + 0x1p-23);
  EXPECT_EQ(sum(-1, one, -0x1.cp-23f), -1 - 0x1p-23);
  EXPECT_EQ(sum(1, one, -0x1p-25f), 1 - 0x1p-24);  // 1 - 2^-25 has one digit too many
  EXPECT_EQ(sum(1, one, -0x1p-26f), 1);
  EXPECT_EQ(sum(1, two_of_them, 0x1p-24f), 1 + 0x1p-23);
  EXPECT_EQ(sum(1, two_of_them, 0x1.cp-25f), 1);  // 2^-25 twice, not 1.75 times that
  EXPECT_EQ(sum(0, one, 0x1p-100f), 0x1p-100);
  EXPECT_EQ(sum(0x1p127f, one, 0x1p127f), INFINITY);
}

}  // namespace
}  // namespace emulated_gpu::test
