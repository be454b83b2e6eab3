// Strategy stream, with a store in memory and blocks of any size. Results are compared with the float64 definition, and
// bit for bit with one rank that has all rows; memory and bytes are compared with the prediction.
#include "annulus/strategies/store/block_passes.hpp"

#include <algorithm>
#include <map>

#include "backward_case.hpp"
#include "strategy_cases.hpp"
#include "support/memory_store.hpp"

namespace annulus::strategies {
namespace {

using core::StoredTensor;
using test::MemoryStore;

/// A store with the case's inputs, and with room for its results.
MemoryStore store_of(const Problem& problem, const AttentionCase& numbers, bool dlse) {
  const core::Shape& s = problem.shape;
  MemoryStore store(s.batch, s.sequence);
  store.put(StoredTensor::q, s.heads, test::to_storage(numbers.q(), problem.type));
  store.put(StoredTensor::k, s.kv_heads, test::to_storage(numbers.k(), problem.type));
  store.put(StoredTensor::v, s.kv_heads, test::to_storage(numbers.v(), problem.type));
  if (problem.gradients) store.put(StoredTensor::dout, s.heads, test::to_storage(numbers.dout(), problem.type));
  if (dlse) store.put(StoredTensor::dlse, s.heads, test::to_storage(numbers.dlse(), core::lse_type(problem.type)));
  test::lay_out_results(problem, store);
  return store;
}

/// Computes a unit, compares its cost with the prediction, and returns its part of the sinks' gradients.
std::vector<std::int64_t> run_unit(const BlockPasses& passes, int phase, Index unit, MemoryStore& store) {
  SCOPED_TRACE("phase " + std::to_string(phase) + ", unit " + std::to_string(unit));
  const UnitCost cost = passes.cost(phase, passes.block_of(unit));
  const core::RowTraffic before = store.traffic();
  const Index written = store.bytes_written;
  core::memory_ledger().reset_peak();
  const Index there = core::memory_ledger().peak_by_purpose()["kernel scratch"];
  const UnitMetrics metrics = passes.run(phase, unit, store, store, {});
  EXPECT_EQ(store.traffic().asked - before.asked, cost.bytes_read);
  EXPECT_EQ(store.bytes_written - written, cost.bytes_written);
  const Index others = there + core::memory_ledger().peak_by_purpose()["work list"];
  EXPECT_LE(core::memory_ledger().peak() - others, cost.memory_bytes) << "more memory than was predicted";
  Index received = 0;
  for (const auto& made : {metrics.forward, metrics.backward}) {
    if (made) received += made->total().bytes_received;
  }
  EXPECT_EQ(received, cost.bytes_read);
  EXPECT_EQ(metrics.forward ? metrics.forward->total().kept : cost.kept, cost.kept);
  EXPECT_EQ(metrics.backward.has_value(), passes.phases() == 2);
  return metrics.sink_sums;
}

/// Computes all units of each phase, the last ones first; `dsink` gets the sinks' gradients.
MemoryStore compute(const Problem& problem, const AttentionCase& numbers, bool dlse, Index block_rows,
                    std::vector<double>& dsink) {
  Problem cut = problem;
  cut.block_size = block_rows;
  MemoryStore store = store_of(problem, numbers, dlse);
  const BlockPasses passes(problem, find("stream")->partition(cut, 1), dlse, numbers.pattern.sink);
  const Index blocks = core::ceil_div(problem.shape.sequence, block_rows);
  EXPECT_TRUE(problem.granule == 1 ? passes.blocks() == blocks : passes.blocks() <= blocks) << passes.blocks();
  std::vector<std::int64_t> sums;
  for (int phase = 0; phase < passes.phases(); ++phase) {
    for (Index unit = passes.units(); unit-- > 0;) kernels::add_words(run_unit(passes, phase, unit, store), sums);
  }
  dsink = kernels::sink_gradients_of(sums);
  for (const auto& [tensor, stored] : store.all()) {
    EXPECT_TRUE(std::all_of(stored.written.begin(), stored.written.end(), [](int times) { return times == 1; }))
        << name_of(tensor) << " was not written exactly once";
  }
  return store;
}

std::vector<double> numbers_of(const MemoryStore& store, StoredTensor tensor, core::DType type) {
  const std::vector<std::byte>& bytes = store.bytes(tensor);
  return test::from_storage(bytes.data(), Index(bytes.size() / core::bytes_of(type)), type);
}

void check(const Case& one, Index block_rows, bool dlse) {
  SCOPED_TRACE(one.name + ", blocks of " + std::to_string(block_rows) + (dlse ? ", dlse" : "") +
               (one.problem.reproducible ? ", reproducible" : ""));
  const Problem& problem = one.problem;
  const Truth truth(one);
  std::vector<double> dsink;
  const MemoryStore store = compute(problem, truth.numbers, dlse, block_rows, dsink);
  const auto expect = [&](StoredTensor tensor, const std::vector<double>& expected, core::DType type, double limit) {
    EXPECT_TRUE(test::close_to(numbers_of(store, tensor, type), expected, limit)) << name_of(tensor);
  };
  expect(StoredTensor::out, truth.forward.out, problem.type, core::forward_tolerance(problem.type));
  expect(StoredTensor::lse, truth.forward.lse, core::lse_type(problem.type), core::forward_tolerance(problem.type));
  if (!problem.gradients) return;
  const kernels::ReferenceGradients& gradients = truth.gradients[dlse ? 1 : 0];
  const double limit = core::gradient_tolerance(problem.type);
  expect(StoredTensor::dq, gradients.dq, problem.type, limit);
  expect(StoredTensor::dk, gradients.dk, problem.type, limit);
  expect(StoredTensor::dv, gradients.dv, problem.type, limit);
  if (problem.sink) {
    EXPECT_TRUE(test::close_to(dsink, gradients.dsink, limit)) << "dsink";
  }
}

/// Every case with blocks of one row, of some rows, or of all rows, in turn.
void check_all(const std::vector<Case>& cases, bool gradients) {
  int turn = 0;
  for (Case one : cases) {
    const Index n = one.problem.shape.sequence, sizes[] = {7, 1, 16, n, n / 2 + 1, 5};
    one.problem.gradients = gradients;
    one.problem.reproducible = turn % 3 == 0;
    check(one, sizes[turn % 6], turn % 2 == 1);
    ++turn;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = semantics_cases();
  for (const auto& more : {awkward_cases(), window_cases(), storage_cases(), device_cases(), random_cases(),
                           sink_cases(), rule_cases(), value_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

TEST(Stream, ForwardIsTheDefinition) { check_all(all_cases(), false); }
TEST(Stream, GradientsAreTheDefinition) { check_all(all_cases(), true); }

/// Few queries in many intervals: heads with different offsets, dilations of 5 and 24, neither a multiple of the other.
TEST(Stream, SparseQueries) {
  for (const bool causal : {false, true}) {
    Case one = make_case("sparse", {1, 211, 4, 2, 8},
                         {pattern::Semantics::paper, {{16, 1}, {64, 5}, {pattern::whole_document, 24}}, causal, false});
    one.problem.gradients = true;
    for (const bool reproducible : {false, true}) {
      one.problem.reproducible = reproducible;
      for (const Index rows : {13, 32, 100}) check(one, rows, false);
    }
  }
}

/// Computes both passes in this process alone, which has all rows.
void compute_alone(const Problem& problem, const AttentionCase& numbers, Tensors& tensors) {
  const comm::Communicator self(MPI_COMM_SELF);
  const pattern::Partition whole = pattern::root_partition(problem.shape.sequence, 1);
  tensors = take_tensors(numbers, problem, whole[0]);
  find("single")->forward(problem, whole, self, tensors, {});
  const auto dout = test::to_storage(numbers.dout(), problem.type);
  tensors.dout = core::Buffer("dout", Index(dout.size()));
  core::copy_to_device(tensors.dout.data(), dout.data(), Index(dout.size()));
  find("single")->backward(problem, whole, self, tensors, {});
}

/// Expects the same bits as from one process that has all rows.
void expect_bits(const Case& one, const std::vector<Index>& blocks) {
  SCOPED_TRACE(one.name);
  const AttentionCase numbers = one.numbers();
  std::map<StoredTensor, std::vector<std::byte>> alone;
  std::vector<double> dsink_alone, dsink;
  {
    Tensors tensors;
    compute_alone(one.problem, numbers, tensors);
    const auto keep = [&](StoredTensor tensor, const core::Buffer& buffer, Index part, Index parts) {
      std::vector<std::byte>& bytes = alone[tensor];
      bytes.resize(std::size_t(buffer.bytes() / parts));
      core::copy_to_host(bytes.data(), buffer.at(part * buffer.bytes() / parts), Index(bytes.size()));
    };
    keep(StoredTensor::out, tensors.out, 0, 1);
    keep(StoredTensor::lse, tensors.lse, 0, 1);
    if (one.problem.statistics.entropy) keep(StoredTensor::entropy, tensors.entropy, 0, 1);
    keep(StoredTensor::dq, tensors.dq, 0, 1);
    keep(StoredTensor::dk, tensors.dkv, 0, 2);
    keep(StoredTensor::dv, tensors.dkv, 1, 2);
    dsink_alone = dsink_of(tensors);
  }
  for (const Index rows : blocks) {
    SCOPED_TRACE("blocks of " + std::to_string(rows));
    const MemoryStore store = compute(one.problem, numbers, false, rows, dsink);
    for (const auto& [tensor, bytes] : alone) EXPECT_EQ(store.bytes(tensor), bytes) << name_of(tensor);
    EXPECT_EQ(dsink, dsink_alone);
  }
}

TEST(Stream, ReproducibleBitsDependOnNoBlocks) {
  for (const bool causal : {false, true}) {
    for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
      Case one =
          make_case(causal ? "causal" : "all", {2, 83, 4, 2, 20},
                    {pattern::Semantics::longnet, {{16, 1}, {48, 3}, {pattern::whole_document, 4}}, causal, false},
                    {0, 30, 30, 83}, type);
      one.problem.gradients = one.problem.reproducible = true;
      one.problem.statistics.entropy = one.problem.sink = true;
      expect_bits(one, {1, 7, 30, 41, 83});
    }
  }
}

/// Blocks that are cut between granules, also with dilation 32: then a block needs only single rows of other blocks.
TEST(Stream, ReproducibleBitsOfGranulesDependOnNoBlocks) {
  for (const bool causal : {false, true}) {
    for (const pattern::Pattern& pattern :
         {pattern::Pattern{
              pattern::Semantics::longnet, {{96, 1}, {192, 3}, {pattern::whole_document, 4}}, causal, false},
          pattern::Pattern{pattern::Semantics::paper, {{pattern::whole_document, 32}}, causal, false}}) {
      Case one = make_case(causal ? "causal" : "all", {2, 1100, 4, 2, 16}, pattern, {0, 300, 300, 1100},
                           core::DType::bfloat16);
      one.problem.gradients = one.problem.reproducible = true;
      one.problem.granule = kernels::granule;
      expect_bits(one, {100, 384, 1100});
    }
  }
}

/// Blocks whose normalizers (all rows and heads) do not have a multiple of 16 bytes. q follows them in memory, and must
/// still begin where matrix units can read it (kernels::check_granules()).
TEST(Stream, TensorsOfABlockBeginWhereMatrixUnitsReadThem) {
  for (const core::DType type : {core::DType::bfloat16, core::DType::float64}) {
    Case one = make_case("odd", {1, 211, 3, 1, 8}, {pattern::Semantics::longnet, {{64, 2}, {}}, true, false},
                         {0, 75, 211}, type);
    one.problem.gradients = one.problem.reproducible = true;
    one.problem.granule = kernels::granule;
    for (const bool dlse : {false, true}) check(one, 64, dlse);
  }
}

}  // namespace
}  // namespace annulus::strategies
