// Kokkos is not started here, as in a program that first makes a plan of the library, which asks what a GPU can do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {
namespace {

const core::Shape shape{2, 100, 4, 2, 64};

TEST(WithoutKokkos, StatesOfNoRowsAreMade) {
  ASSERT_FALSE(Kokkos::is_initialized());
  for (const core::Precision precision : {core::Precision::float32, core::Precision::float64}) {
    const State state(shape, 0, precision);
    EXPECT_EQ(state.m.bytes() + state.l.bytes() + state.acc.bytes(), 0);
  }
}

TEST(WithoutKokkos, ABackEndSaysWhetherItWorksByGranules) {
  EXPECT_EQ(why_no_granules(Backend::host, shape, core::DType::bfloat16, core::Precision::float32),
            "the host's matrix units have no products of float32");
  core::Shape wide = shape;
  wide.head_dim = 320;
  EXPECT_EQ(why_no_granules(Backend::device, wide, core::DType::bfloat16, core::Precision::float32),
            "head size 320 is more than 256");
  wide.head_dim = 9;
  EXPECT_EQ(why_no_granules(Backend::device, wide, core::DType::float16, core::Precision::float32),
            "rows of 18 bytes are no multiple of 16");
  EXPECT_EQ(why_no_granules(Backend::device, shape, core::DType::float32, core::Precision::float32),
            "matrix units have no products of float32 with precision float32");
  for (const core::Precision split : {core::Precision::three_bfloat16, core::Precision::six_bfloat16}) {
    EXPECT_EQ(why_no_granules(Backend::host, shape, core::DType::float32, split), "") << "whatever the processor has";
    wide.head_dim = 320;
    EXPECT_EQ(why_no_granules(Backend::host, wide, core::DType::float32, split), "head size 320 is more than 256");
  }
}

TEST(WithoutKokkos, OnlyTheHostHasProductsOfBfloat16) {
  for (const core::Precision precision :
       {core::Precision::bfloat16, core::Precision::three_bfloat16, core::Precision::six_bfloat16}) {
    EXPECT_EQ(why_no_products(Backend::host, precision), "");
    for (const Backend backend : {Backend::device, Backend::cudnn}) {
      EXPECT_EQ(why_no_products(backend, precision),
                fmt::format("back end {} has no products of {} yet", core::name_of(backend), core::name_of(precision)));
    }
  }
  EXPECT_EQ(why_no_products(Backend::device, core::Precision::float32), "");
}

}  // namespace
}  // namespace annulus::kernels

int main(int argc, char** argv) {  // in other tests main() starts Kokkos
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
