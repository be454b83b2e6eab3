// One process that does not use MPI: results, statistics, memory, and refused arguments.
#include <fmt/format.h>
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"
#include "library_case.hpp"
#include "support/table_words.hpp"

namespace annulus::test {
namespace {

const Shape small{.sequence = 40, .heads = 4, .kv_heads = 2, .head_dim = 8};
const Pattern windows{.segments = {Window{9, 3, 4}, 8, Window{.left = 2, .right = 1}}, .dilations = {1, 2, 5}};
const Pattern dilated{.segments = {8, all}, .dilations = {1, 3}, .causal = true};

bool mpi_was_started() {
  int started = 0;
#if ANNULUS_HAS_MPI
  MPI_Initialized(&started);
#endif
  return started != 0;
}

TEST(LibraryAlone, NeedsNoMpi) {
  const Communicator alone;
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  for (const char* name : {"auto", "ring", "ulysses", "onesided", "allgather"}) {
    Options options;
    options.strategy = name;
    options.gradients = options.entropy = true;
    for (const Pattern& pattern : {dilated, windows}) {
      LibraryCase test{name, small, pattern, options};
      test.options.entropy = false;
      expect_definition(test, alone);
    }
  }
  EXPECT_FALSE(mpi_was_started());
}

/// Besides kernel panels, only the running softmax is allocated: q, k, v and out are the caller's, and not copied.
TEST(LibraryAlone, AllocatesTheRunningSoftmaxAlone) {
  const Communicator alone;
  for (const TensorLayout lies : {TensorLayout::bshd, TensorLayout::bhsd, TensorLayout::padded}) {
    const Shape shape{.sequence = 512, .heads = 2, .head_dim = 64};
    const Plan plan(shape, {.causal = true});
    const Whole whole({"memory", shape, {.causal = true}}, plan, 0);
    const TestTensor q(whole.numbers().q(), DType::float32, whole.queries(), lies);
    const TestTensor k(whole.numbers().k(), DType::float32, whole.keys(), lies);
    const TestTensor v(whole.numbers().v(), DType::float32, whole.keys(), lies);
    const TestTensor out(DType::float32, whole.queries()), lse(DType::float32, whole.heads());
    const core::Shape inner{1, 512, 2, 2, 64};
    kernels::release_kept_memory();
    core::memory_ledger().reset_peak();
    const Index before = core::memory_ledger().current();
    forward(alone, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
    const Index panels = kernels::attend_bytes(kernels::default_backend(), inner, 512, core::Precision::float32);
    const Index softmax = kernels::State::bytes(inner, 512, core::Precision::float32) -
                          kernels::State::acc_bytes(inner, 512, core::Precision::float32);
    EXPECT_LE(core::memory_ledger().peak() - before, panels + softmax) << "layout " << int(lies);
    EXPECT_TRUE(close_to(out.values(), whole.numbers().reference().out, 1e-5));
  }
}

TEST(LibraryAlone, TellsStatistics) {
  const Communicator alone;
  Options options;
  options.entropy = options.received = true;
  options.top_keys = 3;
  const Plan plan(small, dilated, 1, options);
  const Whole whole({"statistics", small, dilated}, plan, 0);
  const TestTensor q(whole.numbers().q(), DType::float32, whole.queries());
  const TestTensor k(whole.numbers().k(), DType::float32, whole.keys(), TensorLayout::bhsd),
      v(whole.numbers().v(), DType::float32, whole.keys(), TensorLayout::padded);
  const TestTensor out(DType::float32, whole.queries()), lse(DType::float32, whole.heads());
  const TestTensor entropy(DType::float32, whole.heads(), TensorLayout::reversed),
      received(DType::float64, whole.heads());
  auto lists = whole.heads();
  lists[3] = 3;
  const TestTensor weights(DType::float32, lists, TensorLayout::reversed);
  const core::Buffer rows("rows", 40 * 4 * 3 * 8);
  forward(alone, plan,
          {q.tensor(),
           k.tensor(),
           v.tensor(),
           out.tensor(),
           lse.tensor(),
           {entropy.tensor(), received.tensor(), weights.tensor(), static_cast<Index*>(rows.data())}});
  std::vector<Index> top(40 * 4 * 3);
  core::copy_to_host(top.data(), rows.data(), rows.bytes());
  // By the definition: P(x, p) from scores and multiplicities.
  const kernels::ReferencePattern pattern = reference_of({"", small, dilated});
  const std::vector<double> qs = whole.numbers().q(), ks = whole.numbers().k();
  std::vector<double> entropies, all_received(40 * 4, 0), best;
  std::size_t listed = 0;
  for (Index x = 0; x < 40; ++x) {
    for (Index h = 0; h < 4; ++h) {
      std::vector<double> p(40, 0);
      double sum = 0;
      for (Index y = 0; y < 40; ++y) {
        double score = 0;
        for (Index d = 0; d < 8; ++d) {
          score += qs[std::size_t((x * 4 + h) * 8 + d)] * ks[std::size_t((y * 2 + h / 2) * 8 + d)];
        }
        p[std::size_t(y)] =
            double(kernels::multiplicity(pattern, 4, h, x, y, {0, 40})) * std::exp(score * pattern.scale);
        sum += p[std::size_t(y)];
      }
      double entropy_here = 0;
      for (Index y = 0; y < 40; ++y) {
        const auto many = double(kernels::multiplicity(pattern, 4, h, x, y, {0, 40}));
        const double share = sum > 0 ? p[std::size_t(y)] / sum : 0;
        if (share > 0) entropy_here -= share * std::log(share / many);
        all_received[std::size_t(y * 4 + h)] += share;
        p[std::size_t(y)] = share;
      }
      entropies.push_back(entropy_here);
      for (Index j = 0; j < 3; ++j, ++listed) {
        const auto most = std::max_element(p.begin(), p.end());
        best.push_back(*most);
        EXPECT_EQ(top[listed], *most > 0 ? most - p.begin() : -1) << "row " << x << ", head " << h << ", place " << j;
        *most = 0;
      }
    }
  }
  EXPECT_TRUE(close_to(entropy.values(), entropies, 1e-5));
  EXPECT_TRUE(close_to(received.values(), all_received, 1e-5));
  EXPECT_TRUE(close_to(weights.values(), best, 1e-5));
}

/// The message of the error that making a plan throws; empty: it throws none.
std::string refusal(const Shape& shape, const Pattern& pattern, int ranks = 1, const Options& options = {}) {
  try {
    const Plan plan(shape, pattern, ranks, options);
    return plan.rows(0).count() < 0 ? "no rows" : "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(LibraryPlan, RefusesWhatMakesNoSense) {
  const Shape good{.sequence = 8, .heads = 4, .head_dim = 2};
  EXPECT_EQ(refusal(good, {}), "");
  EXPECT_EQ(refusal({.sequence = 0, .head_dim = 2}, {}), "plan: sequence is 0, expected 1 or more");
  EXPECT_EQ(refusal({.sequence = 8}, {}), "plan: head_dim is 0, expected 1 or more");
  EXPECT_EQ(refusal({.sequence = 8, .head_dim = 577}, {}), "plan: head_dim is 577, expected 576 or less");
  EXPECT_EQ(refusal({.sequence = 8, .heads = 4, .kv_heads = 3, .head_dim = 2}, {}),
            "plan: kv_heads is 3, expected a divisor of 4 heads");
  EXPECT_EQ(refusal({.sequence = 8, .head_dim = 2, .kv_sequence = -9}, {}),
            "plan: kv_sequence is -9, expected 1 or more");
  EXPECT_EQ(refusal({.sequence = 8, .head_dim = 2, .value_dim = 3}, {}), "");
  EXPECT_EQ(refusal({.sequence = 8, .head_dim = 2, .value_dim = 577}, {}),
            "plan: value_dim is 577, expected 576 or less");
  EXPECT_EQ(refusal({.sequence = 8, .head_dim = 2, .value_dim = -1}, {}), "plan: value_dim is -1, expected 1 or more");
  EXPECT_EQ(
      refusal({.sequence = Index(1) << 60, .head_dim = 2}, {}),
      "plan: input: q of 1 x 1152921504606846976 rows, 1 head of 2, float32, would have 9.22e+18 bytes; expected at "
      "most 3.6e+16");
  EXPECT_EQ(refusal(good, {.segments = {4}, .dilations = {1, 2}}),
            "plan: there are 1 segments and 2 dilations, expected one of each per pair");
  EXPECT_EQ(refusal(good, {.segments = {-4}, .dilations = {1}}),
            "plan: segments[0] is -4, expected 1 to 1000000000000, or annulus::all (0)");
  EXPECT_EQ(refusal(good, {.segments = {Index(1) << 62}, .dilations = {1}}),
            "plan: segments[0] is 4611686018427387904, expected 1 to 1000000000000, or annulus::all (0)");
  EXPECT_EQ(refusal(good, {.segments = {all}, .dilations = {1'000'000'000'000}}), "");
  EXPECT_EQ(refusal(good, {.segments = {all}, .dilations = {std::numeric_limits<Index>::max()}}),
            "plan: dilations[0] is 9223372036854775807, expected 1 to 1000000000000");
  EXPECT_EQ(refusal(good, {.segments = {all, Window{3, -1}}, .dilations = {1, 1}}),
            "plan: segments[1] is a window of left 3, right -1, first 0, expected 0 to 1000000000000");
  EXPECT_EQ(refusal(good, {.segments = {Window{3, 0, 2}}, .dilations = {2}}),
            "plan: segments: pair 1, {window: [3, 0], first: 2}: first needs dilation 1, which is 2");
  EXPECT_EQ(refusal(good, {.segments = {Window{3, 0}}, .dilations = {1}, .semantics = "torchscale"}),
            "plan: segments: pair 1, {window: [3, 0]}: torchscale has no windows, expected rows or all");
  EXPECT_EQ(refusal(good, {.segments = {4}, .dilations = {0}}), "plan: dilations[0] is 0, expected 1 to 1000000000000");
  EXPECT_EQ(refusal(good, {.semantics = "longnets"}),
            "plan: semantics is 'longnets', expected one of " + test::words_of(pattern::semantics_table));
  EXPECT_EQ(refusal(good, {.documents = {0, 5}}), "") << "rows after row 4 do not exist";
  EXPECT_EQ(
      refusal(good, {.documents = {0, 9}}),
      "plan: documents go from 0 to 9 in 2 numbers, expected offsets from 0 to the sequence's length, 8, or less");
  EXPECT_EQ(refusal(good, {.ranges = {{1, 3}, {3, 3}, {6, 8}}}), "");
  EXPECT_EQ(refusal(good, {.ranges = {{1, 3}, {2, 4}}}),
            "plan: ranges[1] is [2, 4), expected ascending ranges of rows 3 to 8");
  EXPECT_EQ(refusal(good, {.ranges = {{0, 9}}}), "plan: ranges[0] is [0, 9), expected ascending ranges of rows 0 to 8");
  EXPECT_EQ(refusal(good, {.ranges = {{5, 4}}}), "plan: ranges[0] is [5, 4), expected ascending ranges of rows 0 to 8");
  EXPECT_EQ(refusal(good, {.documents = {0, 8}, .ranges = {{0, 8}}}),
            "plan: documents and ranges are given, expected one of them");
  EXPECT_EQ(refusal(good, {.documents = {0, 5, 4, 8}}), "plan: documents[2] is 4, less than the offset before it, 5");
  EXPECT_EQ(refusal(good, {.scale = 0}),
            "plan: scale: 0, times log2(e), is no number of precision float32, expected 8.1e-39 to 2.4e+38");
  EXPECT_EQ(refusal(good, {}, 0), "plan: ranks is 0, expected 1 or more");
  EXPECT_EQ(refusal(good, {}, 2, {.strategy = "rings"}).substr(0, 58),
            "plan: strategy is 'rings', expected one of auto, single, a");
  EXPECT_EQ(refusal(good, {}, 2, {.partition = "zig"}),
            "plan: partition is 'zig', expected one of auto, " + test::words_of(pattern::partition_table));
  EXPECT_EQ(refusal(good, {}, 4, {.strategy = "hybrid", .ulysses_ranks = 3}),
            "plan: ulysses_ranks is 3, expected a divisor of the 4 ranks, or 0");
}

/// Many more heads than rows: the extents may be those of (B, heads, S, D) tensors. A short sequence with as many heads
/// as models have is accepted.
TEST(LibraryPlan, AsksWhereHeadsAndRowsMayBeInAnotherOrder) {
  EXPECT_EQ(refusal({.sequence = 8, .heads = 1024, .head_dim = 64}, {}),
            "plan: k has 1024 key/value heads and 8 rows: are the axes in another order? Expected as many rows or "
            "more, or Shape::more_heads_than_rows = true if this is meant");
  EXPECT_EQ(refusal({.sequence = 8, .heads = 1024, .head_dim = 64, .more_heads_than_rows = true}, {}), "");
  EXPECT_EQ(refusal({.sequence = 8, .heads = 1024, .kv_heads = 256, .head_dim = 64}, {}), "") << "256 may be meant";
  EXPECT_EQ(refusal({.sequence = 300, .heads = 300, .head_dim = 2}, {}, 4), "") << "rows of all ranks";
  EXPECT_EQ(refusal({.sequence = 1, .heads = 32, .head_dim = 2}, {}), "");
}

/// If torchscale writes rows to wrong locations, there is no right answer, with or without documents.
TEST(LibraryPlan, RefusesRowsThatTorchscaleDisplaces) {
  const Shape shape{.sequence = 53, .heads = 4, .head_dim = 8};
  Pattern pattern{.segments = {8, 20, all}, .dilations = {1, 3, 7}, .causal = true, .semantics = "torchscale"};
  EXPECT_EQ(refusal(shape, pattern),
            "plan: segments: torchscale writes rows to wrong places in pair 2, segment 20 and dilation 3: the sequence "
            "of 53 rows has more than one segment, and 20 is no multiple of 3; expected a multiple or at least "
            "53 rows");
  pattern.documents = {0, 20, 53};
  EXPECT_EQ(refusal(shape, pattern),
            "plan: segments: torchscale writes rows to wrong places in pair 2, segment 20 and dilation 3: document 2 "
            "(rows 20 to 52) of 33 rows has more than one segment, and 20 is no multiple of 3; expected a multiple or "
            "at least 33 rows");
  pattern.documents.clear();
  pattern.segments[1] = 21;
  EXPECT_EQ(refusal(shape, pattern), "");
  pattern.segments[1] = 53;
  EXPECT_EQ(refusal(shape, pattern), "") << "one segment";
}

TEST(LibraryPlan, RefusesProductsThatItCannotMake) {
  const Shape good{.sequence = 8, .heads = 4, .head_dim = 2};
  EXPECT_EQ(refusal(good, {}, 1, {.precision = "tf23"}),
            "plan: precision is 'tf23', expected one of auto, float32, float64, bfloat16, tf32, 3xtf32, 3xbfloat16, "
            "6xbfloat16");
  Shape halves = good;
  halves.type = DType::float16;
  EXPECT_EQ(
      refusal(halves, {}, 1, {.precision = "3xtf32"}),
      "plan: precision: products of 3xtf32 are made of tensors of float32 only, and these are float16; expected auto, "
      "float32 or float64");
  EXPECT_EQ(
      refusal(halves, {}, 1, {.precision = "6xbfloat16"}),
      "plan: precision: products of 6xbfloat16 are made of tensors of float32 only, and these are float16; expected "
      "auto, float32 or float64");
  EXPECT_EQ(refusal(halves, {}, 1, {.precision = "3xbfloat16"}).empty(), core::device_is_host());
  for (const std::string name : {"tf32", "3xtf32"}) {
    const std::string found = refusal(good, {}, 1, {.precision = name, .reproducible = true});
    if (!core::device_is_host()) {
      EXPECT_NE(found, "") << "a GPU's matrix units cannot read rows of 8 bytes";
      continue;
    }
    EXPECT_EQ(found, "plan: precision: products of " + name +
                         " are made by the matrix units of a GPU (NVIDIA, sm_80 and later), and this build computes on "
                         "the host; expected auto, float32 or float64");
  }
}

TEST(LibraryPlan, SaysWhatEveryRankHoldsAndMoves) {
  const Shape shape{.sequence = 4096, .heads = 8, .kv_heads = 2, .head_dim = 16};
  const Plan plan(shape, {.segments = {512, all}, .dilations = {1, 8}, .causal = true}, 4, {.gradients = true});
  EXPECT_NE(plan.strategy(), "single") << "rows stay where they are";
  Index rows = 0, sent = 0, received = 0;
  for (int rank = 0; rank < 4; ++rank) {
    rows += plan.rows(rank).count();
    sent += plan.sent(rank) + plan.sent(rank, true);
    received += plan.received(rank) + plan.received(rank, true);
    EXPECT_GT(plan.kept(rank), 0);
    EXPECT_GT(plan.memory(rank, true), plan.rows(rank).count() * 8 * 16 * 4);
  }
  EXPECT_EQ(rows, 4096);
  EXPECT_EQ(sent, received);
  EXPECT_GT(sent, 0);
  EXPECT_THROW(plan.rows(4), Error);
  EXPECT_THROW(plan.memory(-1), Error);
}

/// The message of the error that a pass with these tensors throws; empty: it throws none.
std::string objection(const Plan& plan, const ForwardTensors& tensors) {
  try {
    forward(Communicator(), plan, tensors);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(LibraryAlone, RefusesTensorsThatThePlanDoesNotMean) {
  const Plan plan({.sequence = 8, .heads = 2, .head_dim = 4}, {});
  const std::array<Index, 4> extents{1, 8, 2, 4}, heads{1, 8, 2, 1};
  const TestTensor q(std::vector<double>(64, 1.0), DType::float32, extents), out(DType::float32, extents);
  const TestTensor lse(DType::float32, heads);
  const ForwardTensors good{q.tensor(), q.tensor(), q.tensor(), out.tensor(), lse.tensor()};
  EXPECT_EQ(objection(plan, good), "");
  ForwardTensors bad = good;
  bad.k = {};
  EXPECT_EQ(objection(plan, bad), "attention: k is missing, the plan of rank 0 wants (1, 8, 2, 4)");
  bad = good;
  bad.k.extents = {1, 2, 8, 4};
  EXPECT_EQ(objection(plan, bad),
            "attention: k is (1, 2, 8, 4), the plan of rank 0 wants (1, 8, 2, 4); k has 8 key/value heads and 2 rows: "
            "are the axes in another order? Expected (B, rows, heads, D)");
  bad = good;
  bad.v.type = DType::float16;
  bad.v.label = "values";
  EXPECT_EQ(objection(plan, bad), "attention: v (values) is float16, the plan of rank 0 wants float32");
  bad = good;
  bad.lse.type = DType::float64;
  EXPECT_EQ(objection(plan, bad), "attention: lse is float64, the plan of rank 0 wants float32");
  bad = good;
  bad.out.strides[1] = 0;
  EXPECT_EQ(objection(plan, bad),
            "attention: out has a stride of 0, the plan of rank 0 wants memory of its own for each number");
  bad = good;
  bad.out.data = bad.q.data;
  EXPECT_EQ(objection(plan, bad), "attention: out is written and begins where q does; expected memory of its own");
  bad = good;
  bad.q.data = static_cast<char*>(bad.q.data) + 2;
  EXPECT_EQ(objection(plan, bad), "attention: q is not aligned, the plan of rank 0 wants aligned numbers");
  const Plan of_two({.sequence = 8, .heads = 2, .head_dim = 4}, {}, 2, "ring");
  EXPECT_EQ(objection(of_two, good), "attention: the plan is for 2 ranks, the communicator has 1");
}

/// The inner pass would wait for the outer one, which waits until its progress function returns.
TEST(LibraryAlone, RefusesAPassInsideAnotherPassesProgress) {
  const Plan plan({.sequence = 8, .heads = 2, .head_dim = 4}, {}, 1, {.gradients = true});
  const std::array<Index, 4> extents{1, 8, 2, 4}, heads{1, 8, 2, 1};
  const TestTensor q(std::vector<double>(64, 1.0), DType::float32, extents), out(DType::float32, extents);
  const TestTensor lse(DType::float32, heads);
  const ForwardTensors tensors{q.tensor(), q.tensor(), q.tensor(), out.tensor(), lse.tensor()};
  const Normalizers kept = forward(Communicator(), plan, tensors);
  std::vector<std::string> said;
  forward(Communicator(), plan, tensors, [&](double, const std::string&) {
    said.push_back(objection(plan, tensors));
    try {
      backward(Communicator(), plan, kept, BackwardTensors());
    } catch (const Error& error) {
      said.emplace_back(error.what());
    }
  });
  ASSERT_GE(said.size(), 2u);
  EXPECT_EQ(said[0],
            "attention: called by the progress function of a pass, which waits for that function; expected a function "
            "that calls no pass");
  EXPECT_EQ(said[1].substr(0, 28), "attention_backward: called b");
  EXPECT_EQ(objection(plan, tensors), "") << "a pass after it is accepted";
}

TEST(LibraryAlone, RefusesNormalizersOfAnotherPlan) {
  const Shape shape{.sequence = 8, .heads = 2, .head_dim = 4};
  const Options options{.gradients = true};
  const Plan plan(shape, {.causal = true}, 1, options), same(shape, {.causal = true}, 1, options);
  const Plan other(shape, {.causal = false}, 1, options);
  const std::array<Index, 4> extents{1, 8, 2, 4}, heads{1, 8, 2, 1};
  const TestTensor q(std::vector<double>(64, 1.0), DType::float32, extents), out(DType::float32, extents);
  const TestTensor lse(DType::float32, heads), dq(DType::float32, extents), dk(DType::float32, extents);
  const TestTensor dv(DType::float32, extents);
  const auto said = [&](const Plan& forwards, const Plan& backwards) -> std::string {
    const Normalizers kept =
        forward(Communicator(), forwards, {q.tensor(), q.tensor(), q.tensor(), out.tensor(), lse.tensor()});
    try {
      BackwardTensors tensors;
      tensors.q = q.tensor();
      tensors.k = q.tensor();
      tensors.v = q.tensor();
      tensors.out = out.tensor();
      tensors.dout = q.tensor();
      tensors.dq = dq.tensor();
      tensors.dk = dk.tensor();
      tensors.dv = dv.tensor();
      backward(Communicator(), backwards, kept, tensors);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said(plan, plan), "");
  EXPECT_EQ(said(plan, same), "") << "made from the same arguments";
  EXPECT_EQ(said(other, plan),
            "attention_backward: the normalizers are of another plan, with causal false where this one has causal "
            "true; expected those that attention() returned with this plan");
}

TEST(LibraryAlone, SaysWhatItIs) {
  EXPECT_EQ(library_version(),
            fmt::format("{}.{}.{}", ANNULUS_VERSION_MAJOR, ANNULUS_VERSION_MINOR, ANNULUS_VERSION_PATCH));
  EXPECT_EQ(library_description().rfind("annulus " + library_version() + " (" + library_commit() + "), Kokkos ", 0),
            0u);
}

}  // namespace
}  // namespace annulus::test
