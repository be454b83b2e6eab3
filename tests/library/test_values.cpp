// Values of another head size than keys through the library, on the ranks that the caller has started.
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/library/reference.hpp"
#include "annulus/strategies/strategy.hpp"
#include "small_case.hpp"

namespace annulus::test {
namespace {

Shape with_values(Shape shape, Index value_dim) {
  shape.value_dim = value_dim;
  return shape;
}

/// Whether this build refuses such values, as builds for GPUs do; then checks that the error names them.
bool are_refused() {
  const std::string reason = kernels::why_no_value_dim(kernels::default_backend());
  if (reason.empty()) return false;
  try {
    const Plan plan(with_values(small, 3), dilated);
    ADD_FAILURE() << "not refused";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("v: 3 numbers a head, q and k 5: " + reason), std::string::npos)
        << error.what();
  }
  return true;
}

TEST(LibraryValues, EveryStrategy) {
  if (are_refused()) return;
  const Communicator comm(MPI_COMM_WORLD);
  for (const strategies::Strategy* one : strategies::available()) {
    for (const Index value_dim : {3, 11}) {
      Options options;
      options.strategy = one->name();
      options.gradients = true;
      expect_definition(
          {fmt::format("{}, values of {}", one->name(), value_dim), with_values(small, value_dim), dilated, options},
          comm);
    }
  }
}

TEST(LibraryValues, EveryTypeInEveryLayout) {
  if (are_refused()) return;
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : core::all_dtypes) {
    for (const TensorLayout lies : every_layout) {
      for (const bool reproducible : {false, true}) {
        Options options;
        options.gradients = true;
        options.reproducible = reproducible;
        expect_definition({fmt::format("{}, layout {}{}", core::name_of(type), int(lies), reproducible ? ", bits" : ""),
                           with_values(with_type(small, type), 7), dilated, options, lies},
                          comm);
      }
    }
  }
}

/// Latent attention: one key/value head. Its values are the first columns of its keys; only the keys are in memory.
TEST(LibraryValues, AreColumnsOfKeys) {
  if (are_refused()) return;
  const Communicator comm(MPI_COMM_WORLD);
  constexpr Index D = 72, Dv = 64;
  const Shape shape{.sequence = 31, .heads = 4, .kv_heads = 1, .head_dim = D, .value_dim = Dv};
  const Plan plan(shape, dilated, comm.size());
  const Whole whole({"columns", shape, dilated}, plan, comm.rank());
  const TestTensor q(whole.mine(whole.numbers().q()), DType::float32, whole.queries()),
      k(whole.mine(whole.numbers().k()), DType::float32, whole.keys());
  const TestTensor out(DType::float32, whole.outs()), lse(DType::float32, whole.heads());
  Tensor v = k.tensor();
  v.extents[3] = Dv;
  core::memory_ledger().reset_peak();
  forward(comm, plan, {q.tensor(), k.tensor(), v, out.tensor(), lse.tensor()});
  const Index copied = core::memory_ledger().peak_by_purpose()["kv"];
  if (comm.size() == 1) {  // no other rank reads the values
    EXPECT_EQ(copied, 0) << "values are copied";
  } else {
    EXPECT_GE(copied, plan.rows(comm.rank()).count() * (D + Dv) * Index(sizeof(float)));
  }
  const std::vector<double> keys = whole.numbers().k();
  std::vector<double> values;
  for (std::size_t row = 0; row < keys.size() / D; ++row)
    values.insert(values.end(), keys.begin() + Index(row * D), keys.begin() + Index(row * D + Dv));
  const AttentionCase& numbers = whole.numbers();
  const auto expected = kernels::reference_forward(numbers.shape, numbers.pattern, numbers.q(), keys, values);
  EXPECT_TRUE(close_to(out.values(), whole.mine(expected.out), core::forward_tolerance(DType::float32)));
}

TEST(LibraryValues, OfTheReference) {
  if (are_refused()) return;
  const Shape shape = with_values(with_type(small, DType::float64), 3);
  const Plan plan(shape, dilated);
  const Whole whole({"reference", shape, dilated}, plan, 0);
  const TestTensor q(whole.numbers().q(), shape.type, whole.queries()),
      k(whole.numbers().k(), shape.type, whole.keys()), v(whole.numbers().v(), shape.type, whole.values());
  std::vector<double> out(std::size_t(2 * 1 * 4 * 3)), lse(std::size_t(2 * 1 * 4));
  reference(plan, q.tensor(), k.tensor(), v.tensor(), {36}, out.data(), lse.data());
  const auto expected = whole.numbers().reference();
  for (Index b = 0; b < 2; ++b) {
    for (Index i = 0; i < 12; ++i)
      EXPECT_NEAR(out[std::size_t(b * 12 + i)], expected.out[std::size_t((b * 37 + 36) * 12 + i)], 1e-14);
  }
  EXPECT_EQ(usage_error_of([&] { reference(plan, q.tensor(), k.tensor(), k.tensor(), {36}, out.data(), lse.data()); }),
            "reference: v is (2, 37, 2, 5), the plan wants (2, 37, 2, 3)");
}

}  // namespace
}  // namespace annulus::test
