// The library on 1 to 4 ranks, with MPI started by the caller, against the float64 definition.
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/library/made_plan.hpp"
#include "annulus/strategies/strategy.hpp"
#include "small_case.hpp"

namespace annulus::test {
namespace {

TEST(LibraryAttention, EveryStrategyInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<std::string> names{"auto"};
  for (const strategies::Strategy* one : strategies::available()) names.emplace_back(one->name());
  for (const std::string& name : names) {
    for (const TensorLayout lies : every_layout) {
      Options options;
      options.strategy = name;
      options.gradients = true;
      expect_definition({name + ", layout " + std::to_string(int(lies)), small, dilated, options, lies}, comm);
    }
  }
}

TEST(LibraryAttention, WindowsWithEveryStrategy) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const bool causal : {true, false}) {
    const Pattern windows{.segments = {Window{12, 3, 4}, 8, Window{.left = 2, .right = 1}},
                          .dilations = {1, 2, 5},
                          .causal = causal,
                          .documents = {0, 9, 37}};
    for (const strategies::Strategy* one : strategies::available()) {
      Options options;
      options.strategy = one->name();
      options.gradients = true;
      expect_definition({fmt::format("{}, windows{}", one->name(), causal ? ", causal" : ""), small, windows, options},
                        comm);
    }
  }
}

TEST(LibraryAttention, EveryTypeInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : core::all_dtypes) {
    for (const TensorLayout lies : every_layout) {
      for (const bool gradients : {false, true}) {
        Options options;
        options.gradients = gradients;
        expect_definition({std::string(core::name_of(type)), with_type(small, type), dilated, options, lies}, comm);
      }
    }
  }
}

/// Matrix units, if any, only read rows that begin at multiples of 16 bytes: tensors with other rows are copied.
TEST(LibraryAttention, ReproducibleInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const DType type : {DType::bfloat16, DType::float64}) {
    for (const char* strategy : {"ring", "allgather", "ulysses"}) {
      for (const TensorLayout lies : every_layout) {
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
      if (type == DType::float64 && precision == core::Precision::float32) continue;  // less accurate than tolerated
      Options options;
      options.precision = core::name_of(precision);
      options.gradients = true;
      const Plan plan(with_type(small, type), dilated, comm.size(), options);
      EXPECT_EQ(plan.made().problem.backend, kernels::default_backend({.type = type, .precision = precision}));
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
        if (documents) pattern.documents = {0, 5, 5, 20, causal ? 37 : 31};  // rows after row 30 do not exist
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
    for (const TensorLayout lies : every_layout) expect_definition({"few rows", shape, dilated, options, lies}, comm);
  }
}

/// Fills a (B, rows, H, D) View: its rows 0, 1, ... get the values, which are in the order of (B, rows, H, D).
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
        for (std::size_t d = 0; d < view.extent(3); ++d) values.push_back(mirror.access(b, s, h, d));
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
  const kernels::ReferenceResult results = whole.numbers().reference();
  EXPECT_TRUE(close_to(values_of(out), whole.mine(results.out), tolerance));
  EXPECT_TRUE(close_to(values_of(lse), whole.mine(results.lse), tolerance));
  const kernels::ReferenceGradients expected = whole.numbers().reference_gradients();
  EXPECT_TRUE(close_to(values_of(dq), whole.mine(expected.dq), tolerance));
  EXPECT_TRUE(close_to(values_of(dk), whole.mine(expected.dk), tolerance));
  EXPECT_TRUE(close_to(values_of(dv), whole.mine(expected.dv), tolerance));
}

TEST(LibraryAttention, TakesViewsRowAfterRow) { expect_of_views<Kokkos::LayoutRight>(); }
TEST(LibraryAttention, TakesViewsColumnAfterColumn) { expect_of_views<Kokkos::LayoutLeft>(); }

/// A single dense pair is one step of the kernel; the caller's function is called during the step, too.
TEST(LibraryAttention, TellsProgressInsideAStep) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const char* strategy : {"auto", "ulysses"}) {
    const Shape shape{.sequence = 6000, .heads = 4, .head_dim = 64};
    const Plan plan(shape, {.causal = true}, comm.size(), strategy);
    const std::array<Index, 4> mine{1, plan.rows(comm.rank()).count(), 4, 64}, heads{1, mine[1], 4, 1};
    const TestTensor q(std::vector<double>(std::size_t(mine[1] * 256), 1.0), DType::float32, mine);
    const TestTensor out(DType::float32, mine), lse(DType::float32, heads);
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

TEST(LibraryAttention, TellsEveryRankOfOneRanksMistake) {
  const Communicator comm(MPI_COMM_WORLD);
  const Plan plan(small, dilated, comm.size());
  const Whole whole({"mistake", small, dilated}, plan, comm.rank());
  const int bad = comm.size() - 1;
  auto keys = whole.keys();
  if (comm.rank() == bad) keys[2] = 3;
  const TestTensor q(DType::float32, whole.queries()), k(DType::float32, keys), v(DType::float32, whole.keys());
  const TestTensor out(DType::float32, whole.queries()), lse(DType::float32, whole.heads());
  const std::string message = usage_error_of([&] {
    forward(comm, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
  });
  const Index rows = plan.rows(bad).count();
  const std::string text =
      fmt::format("attention: k is (2, {}, 3, 5), the plan of rank {} wants (2, {}, 2, 5)", rows, bad, rows);
  EXPECT_EQ(message, comm.size() == 1 ? text : fmt::format("rank {}: {}", bad, text));
}

/// A rank without rows has tensors without numbers, whose addresses and strides mean nothing: NumPy gives them stride
/// 0, and all of them may have the same address.
TEST(LibraryAttention, RanksWithoutRowsMayHaveAnyEmptyTensors) {
  const Communicator comm(MPI_COMM_WORLD);
  const Shape shape{.batch = 2, .sequence = 2, .heads = 4, .kv_heads = 2, .head_dim = 5};
  for (const char* strategy : {"single", "ring", "ulysses", "allgather"}) {
    Options options;
    options.strategy = strategy;
    options.gradients = options.entropy = true;
    const Plan plan(shape, dilated, comm.size(), options);
    const Whole whole({"no rows", shape, dilated}, plan, comm.rank());
    const bool empty = plan.rows(comm.rank()).count() == 0;
    double somewhere = 0;
    const auto lent = [&](const TestTensor& held) {
      Tensor tensor = held.tensor();
      if (empty) {
        tensor.data = reinterpret_cast<char*>(&somewhere) + 1;
        tensor.strides = {0, 0, 0, 0};
      }
      return tensor;
    };
    const DType type = shape.type;
    const TestTensor q(whole.mine(whole.numbers().q()), type, whole.queries());
    const TestTensor k(whole.mine(whole.numbers().k()), type, whole.keys());
    const TestTensor v(whole.mine(whole.numbers().v()), type, whole.keys());
    const TestTensor dout(whole.mine(whole.numbers().dout()), type, whole.queries());
    const TestTensor out(type, whole.queries()), lse(type, whole.heads()), entropy(type, whole.heads());
    const TestTensor dq(type, whole.queries()), dk(type, whole.keys()), dv(type, whole.keys());
    const Normalizers kept =
        forward(comm, plan, {lent(q), lent(k), lent(v), lent(out), lent(lse), {.entropy = lent(entropy)}});
    BackwardTensors tensors{lent(q), lent(k), lent(v), lent(out), lent(dout)};
    tensors.dq = lent(dq);
    tensors.dk = lent(dk);
    tensors.dv = lent(dv);
    backward(comm, plan, kept, tensors);
    const double tolerance = core::gradient_tolerance(type);
    EXPECT_TRUE(close_to(out.values(), whole.mine(whole.numbers().reference().out), tolerance)) << strategy;
    const kernels::ReferenceGradients expected = whole.numbers().reference_gradients();
    EXPECT_TRUE(close_to(dq.values(), whole.mine(expected.dq), tolerance)) << strategy;
    EXPECT_TRUE(close_to(dk.values(), whole.mine(expected.dk), tolerance)) << strategy;
    EXPECT_TRUE(close_to(dv.values(), whole.mine(expected.dv), tolerance)) << strategy;
  }
}

/// The error of a pass in which the last rank has the plan `odd` and the others have `usual`.
std::string said_of(const Communicator& comm, const Plan& usual, const Plan& odd) {
  const Plan& plan = comm.rank() == comm.size() - 1 ? odd : usual;
  const Whole whole({"plans", plan.shape(), {}}, usual, comm.rank());
  const DType type = plan.shape().type;
  const TestTensor q(type, whole.queries()), k(type, whole.keys()), v(type, whole.keys());
  const TestTensor out(type, whole.queries()), lse(core::lse_type(type), whole.heads());
  return usage_error_of([&] { forward(comm, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()}); });
}

/// If one rank had one of these plans, ranks would compute wrong numbers, or wait for each other.
TEST(LibraryAttention, TellsEveryRankOfAnotherRanksPlan) {
  const Communicator comm(MPI_COMM_WORLD);
  const int ranks = comm.size(), last = ranks - 1;
  const Options ring{.strategy = "ring", .partition = "contiguous"};
  const auto expect = [&](const Plan& odd, const std::string& has, const std::string& first) {
    const Plan usual(small, dilated, ranks, ring);
    const std::string told = said_of(comm, usual, odd);
    EXPECT_EQ(told, ranks == 1 ? ""
                               : fmt::format("attention: rank {} has {}, rank 0 has {}; expected the same on every "
                                             "rank",
                                             last, has, first));
  };
  Pattern pattern = dilated;
  pattern.causal = false;
  expect(Plan(small, pattern, ranks, ring), "causal false", "causal true");
  pattern = dilated;
  pattern.segments[0] = 9;
  expect(Plan(small, pattern, ranks, ring), "segments 9 all", "segments 8 all");
  pattern = dilated;
  pattern.segments.push_back(3);
  pattern.dilations.push_back(1);
  expect(Plan(small, pattern, ranks, ring), "segments 8 all 3", "segments 8 all");
  pattern = dilated;
  pattern.segments[0] = Window{3, 5, 2};  // causal: the right side counts as 0
  expect(Plan(small, pattern, ranks, ring), "segments {window: [3, 0], first: 2} all", "segments 8 all");
  pattern = dilated;
  pattern.scale = 0.5;
  expect(Plan(small, pattern, ranks, ring), "scale 0.5", fmt::format("scale {}", 1 / std::sqrt(5.0)));
  Options options = ring;
  options.reproducible = true;
  expect(Plan(small, dilated, ranks, options), "reproducible true", "reproducible false");
  options = ring;
  options.gradients = true;
  expect(Plan(small, dilated, ranks, options), "gradients true", "gradients false");
  options = ring;
  options.strategy = "allgather";
  if (ranks > 1) expect(Plan(small, dilated, ranks, options), "strategy allgather", "strategy ring");
  options.strategy = "ring";
  options.partition = "zigzag";
  if (ranks > 1) expect(Plan(small, dilated, ranks, options), "partition zigzag", "partition contiguous");
  options.partition = "block_cyclic";
  if (ranks > 1) expect(Plan(small, dilated, ranks, options), "partition block_cyclic", "partition contiguous");
  Shape shape = small;
  shape.sequence = 36;
  if (ranks > 1) expect(Plan(shape, dilated, ranks, ring), "sequence 36", "sequence 37");
}

TEST(LibraryAttention, TellsEveryRankOfOtherDocuments) {
  const Communicator comm(MPI_COMM_WORLD);
  Pattern pattern = dilated;
  pattern.documents = {0, 5, 37};
  const Plan usual(small, pattern, comm.size(), "ring");
  pattern.documents = {0, 6, 37};
  const Plan odd(small, pattern, comm.size(), "ring");
  const std::string told = said_of(comm, usual, odd);
  EXPECT_EQ(told.find("has documents at 3 offsets, of fingerprint") != std::string::npos, comm.size() > 1) << told;
}

/// First the last rank has a plan for another number of ranks; then it calls backward(), and the others forward().
TEST(LibraryAttention, TellsEveryRankOfAnotherNumberOfRanksAndOfAnotherPass) {
  const Communicator comm(MPI_COMM_WORLD);
  const int last = comm.size() - 1;
  const Options options{.strategy = "ring", .partition = "contiguous", .gradients = true};
  const Plan usual(small, dilated, comm.size(), options), odd(small, dilated, comm.size() + 1, options);
  const std::string told = said_of(comm, usual, odd);
  EXPECT_EQ(told, last == 0 ? fmt::format("attention: the plan is for 2 ranks, the communicator has 1")
                            : fmt::format("attention: rank {} has a plan for {} ranks, rank 0 has a plan for {} "
                                          "ranks; expected the same on every rank",
                                          last, comm.size() + 1, comm.size()));
  if (last == 0) return;
  const std::string passes = usage_error_of([&] {
    comm.rank() == last ? backward(comm, usual, Normalizers(), BackwardTensors())
                        : void(forward(comm, usual, ForwardTensors()));
  });
  EXPECT_EQ(passes, fmt::format("{}: rank {} has the call attention_backward, rank 0 has the call attention; expected "
                                "the same on every rank",
                                comm.rank() == last ? "attention_backward" : "attention", last));
}

}  // namespace
}  // namespace annulus::test
