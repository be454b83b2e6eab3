// The library on 1 to 4 ranks that the caller has started, against the float64 definition.
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/strategies/strategy.hpp"
#include "library_case.hpp"

namespace annulus::test {
namespace {

const Shape small{.batch = 2, .sequence = 37, .heads = 4, .kv_heads = 2, .head_dim = 5};
const Pattern dilated{.segments = {8, all}, .dilations = {1, 3}, .causal = true};

Shape with_type(Shape shape, DType type) {
  shape.type = type;
  return shape;
}

TEST(LibraryAttention, EveryStrategyInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<std::string> names{"auto"};
  for (const strategies::Strategy* one : strategies::available()) names.emplace_back(one->name());
  for (const std::string& name : names) {
    for (const Lies lies : every_layout) {
      Options options;
      options.strategy = name;
      options.gradients = true;
      expect_definition({name + ", layout " + std::to_string(int(lies)), small, dilated, options, lies}, comm);
    }
  }
}

TEST(LibraryAttention, EveryTypeInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : core::all_dtypes) {
    for (const Lies lies : every_layout) {
      for (const bool gradients : {false, true}) {
        Options options;
        options.gradients = gradients;
        expect_definition({std::string(core::name_of(type)), with_type(small, type), dilated, options, lies}, comm);
      }
    }
  }
}

/// Matrix units, where there are any, read rows of 16 bytes alone: others are copied.
TEST(LibraryAttention, ReproducibleInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : {DType::bfloat16, DType::float64}) {
    for (const char* strategy : {"ring", "allgather", "ulysses"}) {
      for (const Lies lies : every_layout) {
        Options options;
        options.strategy = strategy;
        options.partition = "contiguous";
        options.gradients = options.reproducible = true;
        const Shape shape{.batch = 2, .sequence = 150, .heads = 24, .kv_heads = 12, .head_dim = 8, .type = type};
        const Pattern pattern{.segments = {64, all}, .dilations = {1, 2}, .causal = true};
        const std::string name = fmt::format("{} {} layout {}", core::name_of(type), strategy, int(lies));
        expect_definition({name, shape, pattern, options, lies}, comm);
      }
    }
  }
}

TEST(LibraryAttention, SumsOfAnotherPrecision) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : core::all_dtypes) {
    for (const core::Precision precision : core::all_precisions) {
      if (!core::takes(precision, type) || !kernels::why_no_products(kernels::default_backend(), precision).empty())
        continue;
      if (type == DType::float64 && precision == core::Precision::float32) continue;  // beyond float64's tolerance
      Options options;
      options.precision = core::name_of(precision);
      options.gradients = true;
      expect_definition({std::string(core::name_of(type)), with_type(small, type), dilated, options}, comm);
    }
  }
}

TEST(LibraryAttention, EverySemantics) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const pattern::SemanticsEntry& entry : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      for (const bool documents : {false, true}) {
        Pattern pattern = dilated;
        pattern.segments = {9, all};
        pattern.causal = causal;
        pattern.semantics = entry.name;
        pattern.group_scale = entry.value == pattern::Semantics::grouped;
        pattern.scale = 0.3;
        if (documents) pattern.documents = {0, 5, 5, 20, 37};
        Options options;
        options.gradients = true;
        options.reproducible = causal;
        options.partition = causal ? "contiguous" : "auto";
        expect_definition({std::string(entry.name), small, pattern, options}, comm);
      }
    }
  }
}

TEST(LibraryAttention, FewerRowsThanRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const Index rows : {1, 2, 3}) {
    Shape shape = small;
    shape.sequence = rows;
    Options options;
    options.gradients = true;
    for (const Lies lies : every_layout) expect_definition({"few rows", shape, dilated, options, lies}, comm);
  }
}

/// Rows 0, 1, ... of a (B, rows, H, D) View as the tests hold tensors.
template <class View>
void fill(const View& view, const std::vector<double>& values) {
  const auto mirror = Kokkos::create_mirror_view(view);
  std::size_t i = 0;
  for (std::size_t b = 0; b < view.extent(0); ++b)
    for (std::size_t s = 0; s < view.extent(1); ++s)
      for (std::size_t h = 0; h < view.extent(2); ++h)
        for (std::size_t d = 0; d < view.extent(3); ++d) mirror(b, s, h, d) = float(values[i++]);
  Kokkos::deep_copy(view, mirror);
}
template <class View>
std::vector<double> values_of(const View& view) {
  const auto mirror = Kokkos::create_mirror_view(view);
  Kokkos::deep_copy(mirror, view);
  std::vector<double> values;
  for (std::size_t b = 0; b < view.extent(0); ++b)
    for (std::size_t s = 0; s < view.extent(1); ++s)
      for (std::size_t h = 0; h < view.extent(2); ++h)
        for (std::size_t d = 0; d < view.extent(3); ++d) values.push_back(mirror(b, s, h, d));
  return values;
}

template <class Layout>
void expect_of_views() {
  const Communicator comm(MPI_COMM_WORLD);
  const Plan plan(small, dilated, comm.size(), {.gradients = true});
  const Whole whole({"views", small, dilated}, plan, comm.rank());
  const auto rows = std::size_t(plan.rows(comm.rank()).count());
  using View = Kokkos::View<float****, Layout>;
  View q("q", 2, rows, 4, 5), k("k", 2, rows, 2, 5), v("v", 2, rows, 2, 5), out("out", 2, rows, 4, 5);
  View dout("dout", 2, rows, 4, 5), dq("dq", 2, rows, 4, 5), dk("dk", 2, rows, 2, 5), dv("dv", 2, rows, 2, 5);
  Kokkos::View<float***, Layout> lse("lse", 2, rows, 4);
  fill(q, whole.mine(whole.numbers().q()));
  fill(k, whole.mine(whole.numbers().k()));
  fill(v, whole.mine(whole.numbers().v()));
  fill(dout, whole.mine(whole.numbers().dout()));
  const Kokkos::DefaultExecutionSpace exec;
  const Kokkos::View<const float****, Layout> q_only_read = q;
  double last = 0;
  const auto kept =
      attention(exec, comm, plan, q_only_read, k, v, out, lse, [&](double share, const std::string&) { last = share; });
  EXPECT_DOUBLE_EQ(last, rows > 0 ? 1 : 0);
  attention_backward(exec, comm, plan, kept, q, k, v, out, dout, dq, dk, dv);
  const double tolerance = core::gradient_tolerance(DType::float32);
  EXPECT_TRUE(close_to(values_of(out), whole.mine(whole.numbers().reference().out), tolerance));
  const kernels::ReferenceGradients expected = whole.numbers().reference_gradients();
  EXPECT_TRUE(close_to(values_of(dq), whole.mine(expected.dq), tolerance));
  EXPECT_TRUE(close_to(values_of(dk), whole.mine(expected.dk), tolerance));
  EXPECT_TRUE(close_to(values_of(dv), whole.mine(expected.dv), tolerance));
}

TEST(LibraryAttention, TakesViewsRowAfterRow) { expect_of_views<Kokkos::LayoutRight>(); }
TEST(LibraryAttention, TakesViewsColumnAfterColumn) { expect_of_views<Kokkos::LayoutLeft>(); }

/// The kernel of one dense pair is one step; a caller hears of it in between, and may end it.
TEST(LibraryAttention, TellsProgressInsideAStep) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const char* strategy : {"auto", "ulysses"}) {
    const Shape shape{.sequence = 6000, .heads = 4, .head_dim = 64};
    const Plan plan(shape, {.causal = true}, comm.size(), strategy);
    const std::array<Index, 4> mine{1, plan.rows(comm.rank()).count(), 4, 64}, heads{1, mine[1], 4, 1};
    const Held q(std::vector<double>(std::size_t(mine[1] * 256), 1.0), DType::float32, mine);
    const Held out(DType::float32, mine), lse(DType::float32, heads);
    int calls = 0, between = 0;
    double last = 0;
    forward(comm, plan, {q.tensor(), q.tensor(), q.tensor(), out.tensor(), lse.tensor()},
            [&](double share, const std::string&) {
              ++calls;
              between += share == last && share < 1;
              last = share;
            });
    EXPECT_GT(between, 0) << calls << " calls";
    EXPECT_DOUBLE_EQ(last, 1);
  }
}

/// What a call says that is refused; empty: it is not.
template <class Call>
std::string usage_error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(LibraryAttention, TellsEveryRankOfOneRanksMistake) {
  const Communicator comm(MPI_COMM_WORLD);
  const Plan plan(small, dilated, comm.size());
  const Whole whole({"mistake", small, dilated}, plan, comm.rank());
  const int bad = comm.size() - 1;
  auto keys = whole.keys();
  if (comm.rank() == bad) keys[2] = 3;
  const Held q(DType::float32, whole.queries()), k(DType::float32, keys), v(DType::float32, whole.keys());
  const Held out(DType::float32, whole.queries()), lse(DType::float32, whole.heads());
  const std::string message = usage_error_of([&] {
    forward(comm, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
  });
  const Index rows = plan.rows(bad).count();
  const std::string text =
      fmt::format("attention: k is (2, {}, 3, 5), the plan of rank {} wants (2, {}, 2, 5)", rows, bad, rows);
  EXPECT_EQ(message, comm.size() == 1 ? text : fmt::format("rank {}: {}", bad, text));
}

TEST(LibraryAttention, TellsEveryRankOfPlansThatAreReproducibleOnSomeRanksOnly) {
  const Communicator comm(MPI_COMM_WORLD);
  Options options;
  options.strategy = "ring";
  options.partition = "contiguous";
  options.reproducible = comm.rank() == comm.size() - 1;
  const Plan plan(small, dilated, comm.size(), options);
  const Whole whole({"plans", small, dilated}, plan, comm.rank());
  const Held q(DType::float32, whole.queries()), k(DType::float32, whole.keys()), v(DType::float32, whole.keys());
  const Held out(DType::float32, whole.queries()), lse(DType::float32, whole.heads());
  const std::string message = usage_error_of([&] {
    forward(comm, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
  });
  if (comm.size() == 1) {
    EXPECT_EQ(message, "");
  } else {
    EXPECT_NE(message.find("attention: plans with Options::reproducible on some ranks only"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace annulus::test
