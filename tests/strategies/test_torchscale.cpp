// `torchscale` compared with torchscale's own numbers, and consequences of its definition.
//
// torchscale.h5 has 21 small inputs in float64, and the results of torchscale's DilatedAttention (torchscale/component/
// dilated_attention.py in github.com/microsoft/torchscale) on one rank. To record them, its projections were set to the
// identity, and its call of flash attention was replaced by an exact float64 softmax that also returns its log-sum-exp.
// q, k and v are normally distributed, rounded to 1/32. `out` is what the module returned. A row's `lse` is the
// log-sum-exp over the log-sum-exps of the pairs that pick the row; without a key it is -inf. 3 cases are causal; 13 of
// the others have filled-in keys. Attribute `filled` is the number of these keys.
#include <algorithm>
#include <cstring>

#include "annulus/pattern/filled_keys.hpp"
#include "end_to_end/results.hpp"
#include "forward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

using Numbers = std::vector<double>;
using pattern::Semantics;

/// Number of filled-in keys of all rows and heads.
Index filled_keys_of(const Problem& problem) {
  Index keys = 0;
  const pattern::StoredRows all = pattern::contiguous_partition(problem.shape.sequence, 1)[0];
  for (const core::FilledRuns& runs : pattern::filled_keys(problem.layout(), all)) {
    for (const core::FilledRun& run : runs) keys += run.count * run.head_count * run.keys;
  }
  return keys * problem.shape.batch;
}

/// The whole q, k and v.
struct Inputs {
  Numbers q, k, v;
};

core::Buffer on_device(const Numbers& whole, const Problem& problem, const pattern::StoredRows& rows, Index tensors) {
  const core::Shape& s = problem.shape;
  const auto bytes =
      test::to_storage(test::take_rows(whole, tensors * s.batch, s.sequence, rows.intervals()), problem.type);
  core::Buffer buffer("test tensor", Index(bytes.size()));
  core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
  return buffer;
}

/// Runs forward() for this rank's rows.
Tensors forward(const Strategy& strategy, const Problem& problem, const Inputs& inputs,
                const pattern::Partition& partition, const comm::Communicator& comm) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Numbers kv = inputs.k;
  kv.insert(kv.end(), inputs.v.begin(), inputs.v.end());
  Tensors tensors;
  tensors.q = on_device(inputs.q, problem, rows, 1);
  tensors.kv = on_device(kv, problem, rows, 2);
  strategy.forward(problem, partition, comm, tensors, {});
  return tensors;
}

/// Calls check(strategy, its problem, its partition) for every strategy, and where possible again with `reproducible`.
template <class Check>
void for_each_way(Problem problem, const comm::Communicator& comm, Check&& check) {
  problem.ulysses_ranks = comm.size() % 2 == 0 ? 2 : 1;
  for (const Strategy* strategy : available()) {
    for (const bool reproducible : {false, true}) {
      problem.reproducible = reproducible;
      if (!why_not_reproducible(*strategy, problem, comm.size()).empty()) continue;
      SCOPED_TRACE(fmt::format("{}{}", strategy->name(), reproducible ? ", reproducible" : ""));
      check(*strategy, problem, strategy->partition(problem, comm.size()));
    }
  }
}

/// A recorded case.
struct Recorded {
  Problem problem;
  Inputs inputs;
  kernels::ReferenceResult result;  ///< what torchscale returned
  Index filled;                     ///< filled-in keys of all rows and heads, counted during the recording
};

/// An attribute of a group that is a list of integers.
std::vector<Index> integers(hid_t group, const char* name) {
  const hid_t attribute = H5Aopen(group, name, H5P_DEFAULT), space = H5Aget_space(attribute);
  std::vector<Index> values(std::size_t(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Aread(attribute, H5T_NATIVE_INT64, values.data()), 0) << name;
  H5Sclose(space);
  H5Aclose(attribute);
  return values;
}

Recorded recorded(const std::string& name) {
  const hid_t file = H5Fopen(ANNULUS_RECORDED, H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t group = H5Gopen2(file, name.c_str(), H5P_DEFAULT);
  const std::vector<Index> segments = integers(group, "segments"), dilations = integers(group, "dilations");
  const bool causal = integers(group, "causal")[0] != 0;
  const Index filled = integers(group, "filled")[0];
  const hid_t data = H5Dopen2(group, "q", H5P_DEFAULT), space = H5Dget_space(data);
  hsize_t extents[4] = {};
  EXPECT_EQ(H5Sget_simple_extent_dims(space, extents, nullptr), 4);
  H5Sclose(space);
  H5Dclose(data);
  H5Gclose(group);
  H5Fclose(file);
  pattern::Pattern pattern{Semantics::torchscale, {}, causal, false};
  for (std::size_t i = 0; i < segments.size(); ++i) pattern.pairs.push_back({segments[i], dilations[i]});
  const core::Shape shape{Index(extents[0]), Index(extents[1]), Index(extents[2]), Index(extents[2]),
                          Index(extents[3])};
  const auto read = [&](const char* tensor) { return test::numbers(ANNULUS_RECORDED, name + "/" + tensor); };
  return {make_case(name, shape, pattern, {}, core::DType::float64).problem,
          {read("q"), read("k"), read("v")},
          {read("out"), read("lse")},
          filled};
}

std::vector<Recorded> all_recorded() {
  std::vector<Recorded> all;
  for (int i = 0; i < 21; ++i) all.push_back(recorded(fmt::format("{:02d}", i)));
  return all;
}

TEST(Torchscale, RecordedCasesHaveFilledInKeys) {
  Index filled = 0, causal = 0;
  for (const Recorded& one : all_recorded()) {
    EXPECT_FALSE(pattern::find_displacement(one.problem.pattern, one.problem.documents));
    EXPECT_EQ(filled_keys_of(one.problem), one.filled);
    filled += one.filled > 0;
    causal += one.problem.pattern.causal;
  }
  EXPECT_EQ(filled, 13);
  EXPECT_EQ(causal, 3);
}

TEST(Torchscale, TheReferenceIsTorchscalesOwn) {
  for (const Recorded& one : all_recorded()) {
    const Problem& problem = one.problem;
    const auto [q, k, v] = one.inputs;
    const auto words = test::reference_pattern(problem.layout(), problem.scale);
    const kernels::ReferenceResult found = kernels::reference_forward(problem.shape, words, q, k, v);
    EXPECT_TRUE(test::close_to(found.out, one.result.out, 1e-13));
    EXPECT_TRUE(test::close_to(found.lse, one.result.lse, 1e-13));
  }
}

TEST(Torchscale, EveryStrategyGivesTorchscalesOwnNumbers) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const double tolerance = core::forward_tolerance(core::DType::float64);
  for (const Recorded& one : all_recorded()) {
    const core::Shape& s = one.problem.shape;
    for_each_way(one.problem, comm, [&](const Strategy& strategy, const Problem& problem, const auto& partition) {
      const auto& rows = partition[std::size_t(comm.rank())].intervals();
      const Tensors made = forward(strategy, problem, one.inputs, partition, comm);
      const Numbers out = test::take_rows(one.result.out, s.batch, s.sequence, rows);
      const Numbers lse = test::take_rows(one.result.lse, s.batch, s.sequence, rows);
      EXPECT_TRUE(test::close_to(test::from_device(made.out, Index(out.size()), problem.type), out, tolerance));
      EXPECT_TRUE(test::close_to(test::from_device(made.lse, Index(lse.size()), problem.type), lse, tolerance));
    });
  }
}

/// The cases with which the forward and backward tests run all strategies.
TEST(Torchscale, CasesOfAllTestsHaveFilledInKeys) {
  Index cases = 0;
  for (const auto& set : {semantics_cases(), awkward_cases(), storage_cases(), device_cases()}) {
    for (const Case& one : set) {
      if (one.problem.pattern.semantics != Semantics::torchscale) continue;
      EXPECT_FALSE(pattern::find_displacement(one.problem.pattern, one.problem.documents)) << one.name;
      EXPECT_EQ(filled_keys_of(one.problem) > 0, !one.problem.pattern.causal) << one.name;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 8 + 1 + 6 + 1);
}

Inputs random_inputs(const Case& one, double key_factor) {
  Inputs inputs{one.numbers().q(), one.numbers().k(), one.numbers().v()};
  for (double& k : inputs.k) k *= key_factor;
  return inputs;
}

bool same_bytes(const core::Buffer& a, const core::Buffer& b) {
  std::vector<std::byte> left(std::size_t(a.bytes())), right(std::size_t(b.bytes()));
  core::copy_to_host(left.data(), a.data(), a.bytes());
  core::copy_to_host(right.data(), b.data(), b.bytes());
  return left == right;
}

TEST(Torchscale, CausalIsLongnetBitForBit) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const bool causal : {true, false}) {
    const Case one =
        make_case("", {2, 45, 4, 2, 24},
                  {Semantics::torchscale, {{16, 1}, {pattern::whole_document, 4}}, causal, false}, {0, 11, 45});
    const Inputs inputs = random_inputs(one, 1);
    for_each_way(one.problem, comm, [&](const Strategy& strategy, Problem problem, const auto& partition) {
      if (strategy.name() == "allgather_overlap") return;  // adds in the order of arrival: bits differ between runs
      const Tensors filled = forward(strategy, problem, inputs, partition, comm);
      problem.pattern.semantics = Semantics::longnet;
      const Tensors plain = forward(strategy, problem, inputs, partition, comm);
      EXPECT_EQ(comm.max(Index(!same_bytes(filled.out, plain.out))), causal ? 0 : 1) << "out";
      EXPECT_EQ(comm.max(Index(!same_bytes(filled.lse, plain.lse))), causal ? 0 : 1) << "lse";
    });
  }
}

/// Queries and keys have opposite signs, so keys that exist have practically no weight beside filled-in keys. A row
/// with c filled-in keys therefore has lse = ln c, in whatever way keys arrive and sums are merged, if its filled-in
/// keys count exactly once.
TEST(Torchscale, FilledInKeysCountOncePerRow) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  Case one = make_case("", {2, 83, 6, 2, 8},
                       {Semantics::torchscale, {{16, 1}, {42, 3}, {pattern::whole_document, 4}}, false, false},
                       {0, 11, 70, 83});
  const core::Shape& s = one.problem.shape;
  Inputs inputs = random_inputs(one, 1);
  for (double& q : inputs.q) q = 40;
  for (double& k : inputs.k) k = -40;
  const auto words = test::reference_pattern(one.problem.layout(), one.problem.scale);
  const kernels::ReferenceResult truth = kernels::reference_forward(s, words, inputs.q, inputs.k, inputs.v);
  for_each_way(one.problem, comm, [&](const Strategy& strategy, const Problem& problem, const auto& partition) {
    const auto& rows = partition[std::size_t(comm.rank())].intervals();
    const Tensors made = forward(strategy, problem, inputs, partition, comm);
    const Numbers expected = test::take_rows(truth.lse, s.batch, s.sequence, rows);
    const Numbers lse = test::from_device(made.lse, Index(expected.size()), problem.type);
    Index with_filled = 0;
    for (std::size_t i = 0; i < lse.size(); ++i) {
      if (expected[i] < 0) continue;
      EXPECT_NEAR(lse[i], expected[i], 1e-6);
      ++with_filled;
    }
    EXPECT_GT(comm.sum(with_filled), s.batch * s.sequence) << "too few rows have filled-in keys";
  });
}

}  // namespace
}  // namespace annulus::strategies
