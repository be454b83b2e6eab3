// Products of bfloat16 on the host: their results with the instruction for them (VDPBF16PS) and without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <random>

#include "annulus/core/error.hpp"
#include "annulus/kernels/tuning.hpp"
#include "kernels/host_backward_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using kernels::host::usable_instruction_sets;

constexpr Band all_masks[] = {Band::all, Band::upto, Band::after};

BackwardCase pair_case(Index rows, Index keys, Index D, Band mask, double amplitude = 1) {
  BackwardCase test = backward_case(rows, keys, D, mask);
  test.type = DType::bfloat16;
  test.precision = Precision::bfloat16;
  test.fill_all(amplitude);
  return test;
}

void expect_right(const BackwardCase& test, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test), forward = stored_forward(test);
  const Gradients gradients = naive_gradients(test, forward);
  for (const InstructionSet set : usable_instruction_sets()) {
    SCOPED_TRACE(what + ", " + std::string(name_of(set)));
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_TRUE(close_to(actual.out, expected.out, core::forward_tolerance(DType::bfloat16))) << "out";
    // amx rounds a score to 1/128 before it rounds its weight.
    const double lse_error = set == InstructionSet::amx ? 0x1p-8 + 0x1p-9 : 0x1p-8;
    EXPECT_LE(largest_difference(actual.lse, expected.lse), lse_error) << "lse: sums of rounded weights";
    expect_close(host_gradients(test, forward, {set}), gradients, core::gradient_tolerance(DType::bfloat16));
  }
}

TEST(HostPairs, HeadSizesAndMasks) {
  for (const Index D : {1, 2, 3, 7, 8, 15, 16, 31, 33, 40, 64, 65, 96, 128, 160, 255, 256}) {
    for (const Band mask : all_masks)
      expect_right(pair_case(53, 59, D, mask), fmt::format("D {} mask {}", D, name_of(mask)));
  }
}

TEST(HostPairs, NumbersOfRowsAndKeysAroundTheBlocks) {
  for (const Index rows : {1, 2, 11, 12, 13, 23, 24, 25, 47, 49, 97, 193}) {
    for (const Index keys : {1, 2, 3, 7, 8, 9, 15, 17, 31, 33, 95, 96, 97, 191, 193, 389}) {
      const Band mask = all_masks[(rows + keys) % 3];
      expect_right(pair_case(rows, keys, 20, mask),
                   fmt::format("{} rows, {} keys, mask {}", rows, keys, name_of(mask)));
    }
  }
}

TEST(HostPairs, LongRowsGroupedHeadsAndOutputScale) {
  for (const Band mask : {Band::all, Band::upto}) {
    BackwardCase test = pair_case(707, 1301, 64, mask);
    test.shape.heads = 3;
    test.calls[0].items[0].head_count = 3;
    test.output_scale = 0.25;
    test.fill_all();
    expect_right(test, fmt::format("mask {}", name_of(mask)));
  }
}

/// The weight of the only key is 2^(score - m), with an even integer m, and is rounded. Its probability must still be
/// 1.
TEST(HostPairs, AKeyThatIsSeenAloneHasWeightOne) {
  for (const Index D : {1, 2, 16, 33, 128}) {
    BackwardCase test = pair_case(61, 1, D, Band::all, 3);
    test.dlse.clear();
    for (const InstructionSet set : usable_instruction_sets()) {
      SCOPED_TRACE(fmt::format("D {}, {}", D, name_of(set)));
      const kernels::ReferenceResult actual = host_answer(test, set);
      for (std::size_t i = 0; i < actual.out.size(); ++i) ASSERT_EQ(actual.out[i], test.v[i % std::size_t(D)]) << i;
      const Gradients gradients = host_gradients(test, actual, {set});
      const std::vector<double> none(test.q.size()), none_of_keys(test.k.size());
      EXPECT_LE(largest_difference(gradients.dq, none), 1e-4);
      EXPECT_LE(largest_difference(gradients.dk, none_of_keys), 1e-3) << "a sum over all rows";
    }
  }
}

/// The results of a plain computation in the same precision; the errors of kernels must be about as small. P and dS are
/// computed in float and rounded to bfloat16, and sums are float.
struct Plain {
  std::vector<double> out;
  Gradients gradients;
};
Plain plain_answer(const BackwardCase& test, const kernels::ReferenceResult& forward) {
  const auto D = std::size_t(test.shape.head_dim);
  std::vector<float> out(test.q.size()), dq(test.q.size()), dk(test.k.size()), dv(test.k.size());
  const std::vector<double> delta = naive_delta(test, forward);
  const auto narrow = [](float x) { return float(rounded({double(x)}, DType::bfloat16)[0]); };
  for_each_meeting(test, [&](std::size_t row, std::size_t key) {
    const float score = float(dot(test.q, row, test.k, key, Index(D)));
    const float p = std::exp(score * float(test.scale()) - float(forward.lse[row])), weight = narrow(p);
    const float ds = narrow(p * (float(dot(test.dout, row, test.v, key, Index(D))) - float(delta[row])));
    for (std::size_t d = 0; d < D; ++d) {
      out[row * D + d] += weight * float(test.v[key * D + d]);
      dq[row * D + d] += float(test.scale()) * ds * float(test.k[key * D + d]);
      dk[key * D + d] += float(test.scale()) * ds * float(test.q[row * D + d]);
      dv[key * D + d] += weight * float(test.dout[row * D + d]);
    }
  });
  const auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  return {rounded(wide(out), DType::bfloat16), {wide(dq), wide(dk), wide(dv)}};
}

TEST(HostPairs, ErrorsAreThoseOfAPlainComputation) {
  for (const Index D : {32, 64, 128}) {
    for (const double amplitude : {1., 4.}) {
      const BackwardCase test = pair_case(257, 301, D, Band::upto, amplitude);
      const kernels::ReferenceResult exact = naive_answer(test), forward = stored_forward(test);
      const Gradients expected = naive_gradients(test, forward);
      const Plain plain = plain_answer(test, forward);
      for (const InstructionSet set : usable_instruction_sets()) {
        SCOPED_TRACE(fmt::format("D {}, amplitude {}, {}", D, amplitude, name_of(set)));
        EXPECT_LE(largest_difference(host_answer(test, set).out, exact.out),
                  2 * largest_difference(plain.out, exact.out) + 1e-6);
        const Gradients actual = host_gradients(test, forward, {set});
        const auto expect_small = [&](const auto& x, const auto& by_plain, const auto& right, const char* name) {
          EXPECT_LE(largest_difference(x, right), 3 * largest_difference(by_plain, right) + 1e-6) << name;
        };
        expect_small(actual.dq, plain.gradients.dq, expected.dq, "dq");
        expect_small(actual.dk, plain.gradients.dk, expected.dk, "dk");
        expect_small(actual.dv, plain.gradients.dv, expected.dv, "dv");
      }
    }
  }
}

// Whether sets avx512 (without the instruction) and avx512_bf16 (with it) can be compared here.
bool has_the_instruction() {
  const auto usable = usable_instruction_sets();
  return std::find(usable.begin(), usable.end(), InstructionSet::avx512_bf16) != usable.end();
}

TEST(HostPairs, TheInstructionAndTwoMultiplyAddsHaveTheSameBits) {
  if (!has_the_instruction()) return;  // only one of them; the model below says what the bits must be
  for (const Band mask : all_masks) {
    for (const auto& [rows, keys, D, amplitude] :
         {std::tuple(61, 113, 33, 1.), std::tuple(211, 397, 64, 8.), std::tuple(97, 205, 128, 40.)}) {
      const BackwardCase test = pair_case(rows, keys, D, mask, amplitude);
      const kernels::ReferenceResult forward = stored_forward(test);
      const auto with = InstructionSet::avx512_bf16, without = InstructionSet::avx512;
      const kernels::ReferenceResult a = host_answer(test, with), b = host_answer(test, without);
      EXPECT_EQ(a.out, b.out);
      EXPECT_EQ(a.lse, b.lse);
      expect_same_bits(host_gradients(test, forward, {with, false}), host_gradients(test, forward, {without, false}));
    }
  }
}

/// One of the two multiply-adds of VDPBF16PS, a b + c; denormal numbers count as 0.
float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.f, x) : x; }
float model(float a, float b, float c) { return flushed(std::fma(flushed(a), flushed(b), flushed(c))); }

/// dV of one key, from rows of random numbers. All scores are 0, so only the rows' normalizers determine P.
struct Sums {
  std::vector<float> p, dout, dv;  // [rows], [rows][D], [D]
};
Sums random_sums(Index rows, Index D, int spread, std::mt19937& random) {
  const auto number = [&](int low, int high) {  // bfloat16, with an exponent from low to high
    const unsigned exponent = unsigned(std::uniform_int_distribution<int>(low, high)(random));
    const unsigned bits = (random() & 0x807fu) | exponent << 7;
    return core::to_float(core::BFloat16{std::uint16_t(bits)});
  };
  Sums sums{{}, {}, std::vector<float>(std::size_t(D))};
  std::vector<float> terms(static_cast<std::size_t>(D));
  for (Index i = 0; i < rows; ++i) {
    sums.p.push_back(std::abs(number(127 - spread, 127)));
    for (Index d = 0; d < D; ++d) sums.dout.push_back(number(spread > 100 ? 0 : 127 - spread, 127 + spread / 2));
    // A block's rows are added up before they are added to dv.
    const bool begins = i % kernels::tuning::host_sum_rows == 0;
    const bool ends = i + 1 == rows || (i + 1) % kernels::tuning::host_sum_rows == 0;
    for (std::size_t d = 0; d < std::size_t(D); ++d) {
      terms[d] = model(sums.p.back(), sums.dout[std::size_t(i * D) + d], begins ? 0 : terms[d]);
      if (ends) sums.dv[d] = flushed(sums.dv[d] + terms[d]);
    }
  }
  return sums;
}

TEST(HostPairs, SumsAreThoseOfTheScalarModel) {
  std::mt19937 random(7);
  for (const InstructionSet set : usable_instruction_sets()) {
    for (const int spread : {2, 20, 60, 126}) {
      if (set == InstructionSet::amx) continue;  // adds 32 rows at a time: see test_host_matrix.cpp
      // Without a fused multiply-add, a denormal product becomes 0 before it is added.
      if (set == InstructionSet::baseline && spread == 126) continue;
      for (const Index rows : {1, 2, 7, 24, 131}) {
        const Index D = 48;
        const Sums sums = random_sums(rows, D, spread, random);
        BackwardCase test = pair_case(rows, 1, D, Band::all);
        std::fill(test.q.begin(), test.q.end(), 0.0);
        std::vector<double> normalizers;
        for (const float p : sums.p) normalizers.insert(normalizers.end(), {0.0, double(p)});
        const auto view = [](const DeviceTensor& tensor) { return tensor.view; };
        const DeviceTensor q = to_device(test.q, test.type, rows, 1, D), k = to_device(test.k, test.type, 1, 1, D),
                           dout = to_device(std::vector<double>(sums.dout.begin(), sums.dout.end()), test.type, rows, 1,
                                            D),
                           made = to_device(normalizers, DType::float32, rows, 1, 2),
                           delta = to_device(std::vector<double>(std::size_t(rows)), DType::float32, rows, 1, 1),
                           dq = to_device(std::vector<double>(test.q.size()), DType::float32, rows, 1, D),
                           dk = to_device(std::vector<double>(test.k.size()), DType::float32, 1, 1, D),
                           dv = to_device(std::vector<double>(test.k.size()), DType::float32, 1, 1, D);
        kernels::host::host_attend_backward(test.calls[0], test.shape, rows, Precision::bfloat16,
                                            {view(q), view(k), view(k), view(dout), view(made), view(delta), 1.0, 1.0},
                                            {view(dq), view(dk), view(dv)}, {}, set);
        EXPECT_EQ(from_device(dv.buffer, D, DType::float32), std::vector<double>(sums.dv.begin(), sums.dv.end()))
            << name_of(set) << ", spread " << spread << ", " << rows << " rows";
      }
    }
  }
}

TEST(HostPairs, OtherTensorsAndTheDeviceAreRefused) {
  WorkCase test = plain_case(3, 3, 8, false);
  test.fill();
  const auto attend = [&](kernels::Backend backend, DType type) {
    const DeviceTensor q = to_device(test.q, type, 3, 1, 8);
    kernels::State state(test.shape, 3, Precision::bfloat16);
    kernels::attend(backend, test.calls[0], {q.view, q.view, q.view, 1.0}, state);
  };
  EXPECT_NO_THROW(attend(kernels::Backend::host, DType::bfloat16));
  for (const DType type : {DType::float64, DType::float32, DType::float16})
    EXPECT_THROW(attend(kernels::Backend::host, type), core::Error) << core::name_of(type);
  EXPECT_THROW(attend(kernels::Backend::device, DType::bfloat16), core::Error);
}

TEST(HostPairs, AreTakenByThemselvesWhereTheInstructionIsButNotForStatistics) {
  const bool has_instruction = core::best_instruction_set() >= InstructionSet::avx512_bf16;
  for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    const bool split = type == DType::float16 && core::has_matrix_units();
    EXPECT_EQ(kernels::default_precision(kernels::Backend::host, type, false),
              split ? Precision::three_bfloat16 : core::default_precision(type, has_instruction));
    EXPECT_EQ(kernels::default_precision(kernels::Backend::host, type, true), core::default_precision(type));
    if (type == DType::bfloat16) continue;
    for (const bool any_cut : {false, true}) {
      EXPECT_EQ(kernels::default_precision(kernels::Backend::device, type, false, any_cut),
                core::default_precision(type));
    }
    EXPECT_EQ(kernels::default_precision(kernels::Backend::host, type, false, true), core::default_precision(type));
  }
}

}  // namespace
}  // namespace annulus::test
