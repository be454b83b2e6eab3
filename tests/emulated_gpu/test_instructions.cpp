// Instructions of one thread, against what the PTX ISA says of them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ptx.hpp"

namespace emulated_gpu::test {
namespace {

struct Line {
  std::string body;
  std::uint64_t x4;
};

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

void expect(const std::vector<Line>& lines) {
  for (const Line& line : lines) EXPECT_EQ(run_text({line.body + "\n" + store_x4}, 1)[0], line.x4) << line.body;
}

TEST(EmulatedInstructions, Integers) {
  expect({{"mov.u64 %x4, 7; add.s64 %x4, %x4, -9;", std::uint64_t(-2)},
          {"mov.u32 %r2, -3; mul.wide.s32 %x4, %r2, 5;", std::uint64_t(-15)},
          {"mov.u32 %r2, -3; mul.wide.u32 %x4, %r2, 5;", 5 * std::uint64_t(0xfffffffd)},
          {"mov.u32 %r2, -3; mov.u64 %x5, 100; mad.wide.s32 %x4, %r2, 5, %x5;", 85},
          {"mov.u64 %x5, 0x8000000000000000; mul.hi.u64 %x4, %x5, 6;", 3},
          {"mov.u64 %x5, -7; div.s64 %x4, %x5, 2;", std::uint64_t(-3)},
          {"mov.u64 %x5, -7; rem.s64 %x4, %x5, 2;", std::uint64_t(-1)},
          {"mov.u64 %x5, -7; min.s64 %x4, %x5, 2;", std::uint64_t(-7)},
          {"mov.u64 %x5, -7; min.u64 %x4, %x5, 2;", 2},
          {"mov.u64 %x5, -8; shr.s64 %x4, %x5, 1;", std::uint64_t(-4)},
          {"mov.u64 %x5, -8; shr.u64 %x4, %x5, 70;", 0},
          {"mov.u64 %x5, 1; shl.b64 %x4, %x5, 64;", 0},
          {"mov.u64 %x5, 0xff00; popc.b64 %r4, %x5; cvt.u64.u32 %x4, %r4;", 8},
          {"mov.u32 %r2, 1; clz.b32 %r4, %r2; cvt.u64.u32 %x4, %r4;", 31}});
}

// In 32-bit words: (2^32 - 1) + 1, 7 more in the high word; (2^32 - 1)^2 + 2^32 - 1; 2^32 - 3; 2 (2^32 - 1).
TEST(EmulatedInstructions, Carries) {
  const std::string all = "mov.u32 %r2, -1; mov.u32 %r3, 0; ";
  const std::string both = "mov.b64 %x4, {%r5, %r6};";
  expect({{all + "add.cc.u32 %r5, %r2, 1; addc.u32 %r6, %r3, 7;" + both, std::uint64_t(8) << 32},
          {all + "mov.u32 %r4, -1; mad.lo.cc.u32 %r5, %r2, %r4, %r2; madc.hi.u32 %r6, %r2, %r4, 0;" + both,
           0xffffffff00000000},
          {all + "sub.cc.u32 %r5, %r3, 3; subc.u32 %r6, 1, 0;" + both, 0xfffffffd},
          {all + "add.cc.u32 %r5, %r2, %r2; addc.cc.u32 %r6, %r2, 0; addc.u32 %r6, %r3, 0;" + both, 0x1fffffffe}});
}

TEST(EmulatedInstructions, Bits) {
  expect({{"mov.u32 %r2, 0xabcd; bfe.u32 %r4, %r2, 4, 8; cvt.u64.u32 %x4, %r4;", 0xbc},
          {"mov.u32 %r2, 0xabcd; bfe.s32 %r4, %r2, 4, 8; cvt.s64.s32 %x4, %r4;", std::uint64_t(-0x44)},
          {"mov.u32 %r2, 0xff; mov.u32 %r3, 0; bfi.b32 %r4, %r2, %r3, 4, 4; cvt.u64.u32 %x4, %r4;", 0xf0},
          {"mov.u32 %r2, 0x33221100; mov.u32 %r3, 0x77665544; prmt.b32 %r4, %r2, %r3, 0x7531; cvt.u64.u32 %x4, %r4;",
           0x77553311},
          {"mov.u32 %r2, 0x80000000; mov.u32 %r3, 1; shf.l.wrap.b32 %r4, %r2, %r3, 1; cvt.u64.u32 %x4, %r4;", 3},
          {"mov.u32 %r2, 12; mov.u32 %r3, 10; lop3.b32 %r4, %r2, %r3, 6, 0x96; cvt.u64.u32 %x4, %r4;", 12 ^ 10 ^ 6},
          {"mov.u64 %x5, 0x1111222233334444; mov.b64 {%r2, %r3}, %x5; mov.b64 %x4, {%r3, %r2};", 0x3333444411112222}});
}

TEST(EmulatedInstructions, Floats) {
  const double third = 1.0 / 3.0;
  expect({{"mov.f64 %d1, 0d3FF0000000000000; mov.f64 %d2, 0d4008000000000000; div.rn.f64 %d3, %d1, %d2; "
           "mov.b64 %x4, %d3;",
           bits(third)},
          {"mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f40000000; max.f32 %f3, %f1, %f2; mov.b32 %r4, %f3; "
           "cvt.u64.u32 %x4, %r4;",
           bits(2.0F)},
          {"mov.f32 %f1, 0f40400000; ex2.approx.ftz.f32 %f3, %f1; mov.b32 %r4, %f3; cvt.u64.u32 %x4, %r4;", bits(8.0F)},
          {"mov.f32 %f1, 0fC3160000; ex2.approx.ftz.f32 %f3, %f1; mov.b32 %r4, %f3; cvt.u64.u32 %x4, %r4;", 0},
          // One rounding, not two: (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24.
          {"mov.f32 %f1, 0f3F800800; mov.f32 %f2, 0fBF801000; fma.rn.f32 %f3, %f1, %f1, %f2; mov.b32 %r4, %f3; "
           "cvt.u64.u32 %x4, %r4;",
           bits(std::ldexp(1.0F, -24))}});
}

// (1 + 2^-12)^2 - 1 - 2^-11 is 0 with two roundings, 2^-24 with one. Instructions with .rn are not fused.
TEST(EmulatedInstructions, ProductsAreFusedOnRequest) {
  const auto result = [](const std::string& body, const char* fused) {
    setenv("EMULATED_GPU_FUSED", fused, 1);
    const auto out = run_text(
        {"mov.f32 %f1, 0f3F800800;\nmov.f32 %f2, 0f3F801000;\n" + body + "\nmov.b32 %r4, %f4;\n" + store_r4}, 1);
    setenv("EMULATED_GPU_FUSED", "0", 1);
    return std::bit_cast<float>(std::uint32_t(out[0]));
  };
  const float small = std::ldexp(1.0F, -24);
  const std::string product = "mul.f32 %f3, %f1, %f1; ";
  EXPECT_EQ(result(product + "sub.f32 %f4, %f3, %f2;", "0"), 0.0F);
  EXPECT_EQ(result(product + "sub.f32 %f4, %f3, %f2;", "1"), small);
  EXPECT_EQ(result(product + "sub.f32 %f4, %f2, %f3;", "1"), -small);
  EXPECT_EQ(result(product + "neg.f32 %f2, %f2; add.f32 %f4, %f2, %f3;", "1"), small);
  EXPECT_EQ(result(product + "sub.rn.f32 %f4, %f3, %f2;", "1"), 0.0F);
  EXPECT_EQ(result("mul.rn.f32 %f3, %f1, %f1; sub.f32 %f4, %f3, %f2;", "1"), 0.0F);
  EXPECT_EQ(result(product + "mov.f32 %f1, 0f00000000; sub.f32 %f4, %f3, %f2;", "1"), 0.0F) << "too late";
  EXPECT_EQ(result(product + "mov.f32 %f3, %f2; sub.f32 %f4, %f3, %f2;", "1"), 0.0F) << "no product any more";
}

TEST(EmulatedInstructions, ComparisonsOfNaN) {
  const std::string nan = "mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f40000000; ";
  for (const auto& [compare, is] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"lt", 0}, {"ltu", 1}, {"ne", 0}, {"neu", 1}, {"ge", 0}, {"geu", 1}, {"num", 0}, {"nan", 1}})
    expect({{nan + "setp." + compare + ".f32 %p1, %f1, %f2; selp.u64 %x4, 1, 0, %p1;", is}});
  expect({{"setp.eq.s32 %p1|%p2, %r1, 0; selp.u64 %x4, 1, 0, %p2;", 0},
          {"setp.eq.s32 %p1, %r1, 0; setp.gt.and.s32 %p2, %r1, -5, !%p1; selp.u64 %x4, 1, 0, %p2;", 0},
          {"setp.eq.s32 %p1, %r1, 0; setp.gt.or.s32 %p2, %r1, 5, %p1; selp.u64 %x4, 1, 0, %p2;", 1}});
}

TEST(EmulatedInstructions, Conversions) {
  expect({{"mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 2},  // 2.5
          {"mov.f32 %f1, 0f40200000; cvt.rpi.f32.f32 %f2, %f1; cvt.rzi.u64.f32 %x4, %f2;", 3},
          {"mov.f32 %f1, 0fFF800000; cvt.rzi.s32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 0x80000000},
          {"mov.f32 %f1, 0f3F808000; mov.f32 %f2, 0f3F818000; cvt.rn.bf16x2.f32 %r4, %f1, %f2; cvt.u64.u32 %x4, %r4;",
           0x3f803f82},  // ties to even; the first one is the high half
          {"mov.f32 %f1, 0f3F801000; cvt.rn.tf32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 0x3f800000},
          {"mov.f32 %f1, 0f3F803000; cvt.rn.tf32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 0x3f804000},
          {"mov.f32 %f1, 0fBF803001; cvt.rn.tf32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 0xbf804000},
          {"mov.f32 %f1, 0f7FFFFFFF; cvt.rn.tf32.f32 %r4, %f1; cvt.u64.u32 %x4, %r4;", 0x7fffffff},
          {"mov.f32 %f1, 0f477FF000; cvt.rn.f16.f32 %h1, %f1; cvt.u64.u16 %x4, %h1;", 0x7c00},  // 65520: infinite
          {"mov.f32 %f1, 0f33800000; cvt.rn.f16.f32 %h1, %f1; cvt.u64.u16 %x4, %h1;", 1},       // 2^-24
          {"mov.u16 %h1, 0xc000; cvt.f32.f16 %f1, %h1; mov.b32 %r4, %f1; cvt.u64.u32 %x4, %r4;", bits(-2.0F)},
          {"mov.u16 %h1, 0x1ff; cvt.s64.s8 %x4, %h1;", std::uint64_t(-1)}});
}

TEST(EmulatedInstructions, MemoryOfAllSizes) {
  const std::vector<std::uint64_t> in{0x8877665544332211, 0xffeeddccbbaa9988};
  const auto loaded = [&](const std::string& body) { return run_text({body + "\n" + store_x4}, 1, in)[0]; };
  EXPECT_EQ(loaded("ld.global.s8 %h1, [%x2+7]; cvt.s64.s16 %x4, %h1;"), std::uint64_t(-0x78));
  EXPECT_EQ(loaded("ld.global.u8 %r2, [%x2+7]; cvt.u64.u32 %x4, %r2;"), 0x88U);
  EXPECT_EQ(loaded("ld.global.v2.u64 {%x6, %x4}, [%x2];"), in[1]);
  EXPECT_EQ(loaded("ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%x2]; cvt.u64.u16 %x4, %h3;"), 0x6655U);
  EXPECT_EQ(loaded("ld.u32 %r2, [%x2+4]; cvt.u64.u32 %x4, %r2;"), 0x88776655U);
  EXPECT_EQ(loaded("mov.u64 %x6, k_param_1; ld.param.u64 %x7, [%x6]; ld.global.u64 %x4, [%x7+8];"), in[1]);
}

TEST(EmulatedInstructions, VariablesOfAFile) {
  const std::string before = ".const .align 8 .u64 c[2] = {5, 11};\n.global .align 8 .u64 g = generic(c);\n";
  EXPECT_EQ(run_text({"ld.const.u64 %x4, [c+8];\n" + store_x4, before}, 1)[0], 11U);
  EXPECT_EQ(run_text({"ld.global.u64 %x6, [g]; ld.u64 %x4, [%x6];\n" + store_x4, before}, 1)[0], 5U);
}

TEST(EmulatedInstructions, CallsAndLocalMemory) {
  const std::string twice_and_one =
      ".func (.param .b64 result) f(.param .b64 f_param_0)\n{\n.reg .b64 %x<9>;\n.reg .pred %p<2>;\n"
      ".local .align 8 .b8 depot[16];\n"
      "ld.param.u64 %x1, [f_param_0];\nmov.u64 %x5, depot;\ncvta.local.u64 %x6, %x5;\nst.u64 [%x6+8], %x1;\n"
      "setp.eq.s64 %p1, %x1, 0;\nmov.u64 %x3, 0;\n@%p1 bra $L_end;\nld.local.u64 %x2, [%x5+8];\nadd.s64 %x3, %x1, "
      "%x2;\n"
      "add.s64 %x3, %x3, 1;\n$L_end:\nst.param.b64 [result], %x3;\nret;\n}\n";
  const std::string body =
      "{\n.param .b64 given;\n.param .b64 got;\nst.param.b64 [given], %x3;\ncall.uni (got), f, (given);\n"
      "ld.param.b64 %x4, [got];\n}\n" +
      store_x4;
  const auto out = run_text({body, twice_and_one}, 40);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(out[i], i == 0 ? 0 : 16 * i + 1);
}

}  // namespace
}  // namespace emulated_gpu::test
