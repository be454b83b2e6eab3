// Reproducible problems: out and lse, and gradients where the problem asks for them, have the bits that one rank
// computes alone. Tested for every strategy that claims this, on all ranks, with any cuts. In the same comparison
// without `reproducible`, some bits must differ: a comparison that cannot fail shows nothing.
#include <algorithm>
#include <utility>

#include "stored_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

using pattern::Partition;
using pattern::PartitionKind;

/// Random cuts, the same on every rank; some ranks may get no rows.
Partition random_cuts(std::mt19937_64& random, Index n, int ranks) {
  std::vector<Index> cuts{0, n};
  for (int p = 1; p < ranks; ++p) cuts.push_back(Index(random() % std::uint64_t(n + 1)));
  std::sort(cuts.begin(), cuts.end());
  Partition partition;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    partition.emplace_back(std::vector<core::Interval>{{cuts[p], cuts[p + 1]}});
  }
  return partition;
}

struct Way {
  const Strategy* strategy;
  std::string name;
  Partition partition;
  bool gradients;  // whether its gradients are reproducible, too
};

void expect_same_bits(const Stored& stored, const Bits& whole, const Way& way, const comm::Communicator& comm,
                      const std::string& name) {
  SCOPED_TRACE(way.name + ", " + name);
  const Bits expected = stored.own(whole, way.partition, comm);
  const Bits found = stored.compute(*way.strategy, way.partition, comm, way.gradients);
  EXPECT_TRUE(found.out == expected.out) << "out";
  EXPECT_TRUE(found.lse == expected.lse) << "lse";
  EXPECT_TRUE(found.entropy == expected.entropy) << "entropy";
  if (!way.gradients) return;
  EXPECT_TRUE(found.dq == expected.dq) << "dq";
  EXPECT_TRUE(found.dkv == expected.dkv) << "dk or dv";
  EXPECT_TRUE(found.received == expected.received) << "received";
  EXPECT_EQ(found.dsink, expected.dsink);
  EXPECT_TRUE(found.top_rows == expected.top_rows && found.top_weights == expected.top_weights) << "top";
}

/// All ways that can be reproducible: every strategy with every partition that it can use, and uneven cuts.
std::vector<Way> ways(const Case& one, std::mt19937_64& random, int ranks) {
  std::vector<Way> all;
  const Partition uneven = on_grid(random_cuts(random, one.problem.shape.sequence, ranks), one.problem.grid());
  for (const Strategy* strategy : available()) {
    for (const auto& entry : pattern::partition_table) {
      Problem cut = one.problem;
      cut.partition = entry.value;
      cut.block_size = 5;
      if (!why_not_reproducible(*strategy, cut, ranks).empty()) continue;
      cut.gradients = true;
      const bool gradients = why_not_reproducible(*strategy, cut, ranks).empty();
      all.push_back(
          {strategy, fmt::format("{}, {}", strategy->name(), entry.name), strategy->partition(cut, ranks), gradients});
      const bool cuts_itself = strategy->communication(cut, ranks).pattern == CommunicationPattern::none;
      if (entry.value == PartitionKind::contiguous && !cuts_itself) {
        all.push_back({strategy, fmt::format("{}, uneven", strategy->name()), uneven, gradients});
      }
    }
  }
  return all;
}

/// For each result, the number of cases in which it differs without `reproducible`.
struct Differing {
  Index out = 0, entropy = 0, dq = 0, dkv = 0, received = 0, dsink = 0;
};

/// Compares this rank's rows with those of one rank alone. Also compares, without `reproducible`, a ring with one rank.
void compare(const Case& one, std::mt19937_64& random, const comm::Communicator& comm, Differing& differing) {
  const Stored stored(one);
  const Bits alone = stored.alone();
  for (const Way& way : ways(one, random, comm.size())) expect_same_bits(stored, alone, way, comm, one.name);
  Stored ordinary = stored;
  ordinary.problem.reproducible = false;
  const Partition even = pattern::contiguous_partition(one.problem.shape.sequence, comm.size());
  const Bits expected = ordinary.own(ordinary.alone(), even, comm);
  const Bits found = ordinary.compute(*find("ring"), even, comm, true);
  differing.out += found.out != expected.out;
  differing.entropy += found.entropy != expected.entropy;
  differing.received += found.received != expected.received;
  differing.dq += found.dq != expected.dq;
  differing.dkv += found.dkv != expected.dkv;
  differing.dsink += found.dsink != expected.dsink;
}

/// Runs the cases, every second one with sinks, every third one with a score rule. On more than one rank, each result
/// must differ in some case without `reproducible`.
void compare_all(const std::vector<Case>& cases, std::uint64_t seed) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  std::mt19937_64 random(seed);
  Differing differing;
  bool has_sink = true;
  std::size_t number = 0;
  for (Case one : cases) {
    const bool takes_rule = one.problem.backend == kernels::Backend::host && one.problem.granule == 1;
    if (++number % 3 == 0 && takes_rule) one.problem.rule = rule_number(number / 3, one.problem);
    one.problem.sink = std::exchange(has_sink, !has_sink);
    compare(one, random, comm, differing);
  }
  for (const Index one :
       {differing.out, differing.entropy, differing.dq, differing.dkv, differing.received, differing.dsink}) {
    const Index everywhere = comm.sum(one);
    if (comm.size() > 1) {
      EXPECT_GT(everywhere, 0) << "nothing differs without `reproducible` either: this test shows nothing";
    }
  }
}

Case make(const std::string& name, core::Shape shape, pattern::Pattern pattern, pattern::Documents documents = {},
          core::DType type = core::DType::float32) {
  Case one = make_case(name, shape, std::move(pattern), std::move(documents), type);
  one.problem.reproducible = true;
  one.problem.ulysses_ranks = comm::Communicator(MPI_COMM_WORLD).size() % 2 == 0 ? 2 : 1;
  return one;
}

const Index all = pattern::whole_document;
using pattern::Semantics, pattern::Window;

TEST(Reproducible, SemanticsCausalDocumentsAndGroupedHeads) {
  std::vector<Case> cases;
  for (const auto& semantics : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      for (const Index kv_heads : {6, 2}) {
        if (semantics.value == Semantics::torchscale && causal && kv_heads != 2) continue;  // the same as longnet
        for (const pattern::Documents& documents : {pattern::Documents{}, pattern::Documents{0, 11, 11, 70, 83}}) {
          cases.push_back(make(
              fmt::format("{}{}, {} K/V heads, {} documents", semantics.name, causal ? ", causal" : "", kv_heads,
                          std::max<std::size_t>(documents.size(), 2) - 1),
              {1, 83, 6, kv_heads, 8},
              test::without_displacement({semantics.value, {{16, 1}, {40, 3}, {all, 4}}, causal, false}), documents));
        }
      }
    }
  }
  compare_all(cases, 1);
}

TEST(Reproducible, EveryStorageTypeAndPrecision) {
  std::vector<Case> cases;
  for (const core::DType type : core::all_dtypes) {
    for (const bool causal : {false, true}) {
      const std::string name = fmt::format("{}{}", core::name_of(type), causal ? ", causal" : "");
      cases.push_back(
          make(name, {2, 150, 4, 2, 24}, {Semantics::longnet, {{64, 1}, {all, 3}}, causal, false}, {}, type));
      if (type == core::DType::float64) continue;
      if (core::takes(core::Precision::bfloat16, type) &&
          kernels::why_no_products(cases.back().problem.backend, core::Precision::bfloat16).empty()) {
        cases.push_back(cases.back());
        cases.back().problem.precision = core::Precision::bfloat16;
        cases.back().name += ", products of bfloat16";
      }
      cases.push_back(cases.back());
      cases.back().problem.precision = core::Precision::float64;
      cases.back().name += ", float64 accumulation";
    }
  }
  compare_all(cases, 2);
}

TEST(Reproducible, MoreRowsThanATileAndOnePair) {
  compare_all({make("dense", {1, 700, 2, 1, 64}, {Semantics::longnet, {{}}, false, false}),
               make("dense, causal", {1, 700, 2, 2, 64}, {Semantics::longnet, {{}}, true, false}),
               make("wide heads", {1, 600, 2, 2, 136}, {Semantics::paper, {{all, 2}}, false, false}),
               make("four pairs", {1, 900, 4, 2, 32},
                    {Semantics::longnet, {{64, 1}, {256, 2}, {600, 3}, {all, 8}}, false, false}),
               make("blocks of rows", {2, 413, 128, 2, 128}, {Semantics::torchscale, {{64, 1}, {all, 8}}, false, false},
                    {0, 100, 413}, core::DType::bfloat16),
               make("fewer rows than ranks", {2, 3, 2, 1, 5}, {Semantics::paper, {{2, 1}, {all, 2}}, false, false}),
               make("group_scale", {1, 60, 5, 5, 8}, {Semantics::grouped, {{8, 1}, {all, 2}}, false, true})},
              3);
}

TEST(Reproducible, Windows) {
  std::vector<Case> cases;
  for (const bool causal : {false, true}) {
    const auto add = [&](const char* name, std::vector<pattern::Pair> pairs, const pattern::Documents& documents) {
      cases.push_back(make(fmt::format("{}{}", name, causal ? ", causal" : ""), {1, 240, 4, 2, 24},
                           {Semantics::longnet, std::move(pairs), causal, false}, documents));
    };
    add("dilated", {{all, 2, Window{70, 50}}}, {});
    add("with first rows", {{all, 1, Window{33, 30, 90}}}, {});
    add("several, documents", {{all, 1, Window{12, 12, 5}}, {40, 3}, {all, 3, Window{6, 40}}}, {0, 20, 20, 150, 240});
  }
  compare_all(cases, 8);
}

TEST(Reproducible, ValuesOfAnotherSize) {
  std::vector<Case> cases;
  for (const bool causal : {false, true}) {
    for (const core::DType type : {core::DType::float32, core::DType::bfloat16, core::DType::float64}) {
      cases.push_back(make(fmt::format("{}{}", name_of(type), causal ? ", causal" : ""), {2, 120, 4, 2, 24},
                           {Semantics::longnet, {{all, 1}, {40, 3}, {all, 1, Window{9, 3}}}, causal, false},
                           {0, 30, 31, 120}, type));
    }
  }
  compare_all(with_values(cases, 1), 17);
}

TEST(Reproducible, RandomSettings) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  std::vector<Case> cases;
  for (int i = 0; i < 40; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, i % 8 == 0 ? 400 : 90);
    const Index head_dim = 1 + Index(random() % 40);
    Case one = make(fmt::format("seed {}, case {}: {}", seed, i, test::describe(drawn)),
                    {1 + Index(random() % 2), drawn.n, drawn.layout.heads, drawn.layout.kv_heads, head_dim},
                    drawn.layout.pattern, drawn.layout.documents);
    one.seed = random();
    one.problem.scale *= std::array{1.0, 30.0, 1000.0}[random() % 3];  // scores up to some thousands, far apart
    cases.push_back(one);
  }
  compare_all(cases, seed);
}

TEST(Reproducible, KeysThatWeighNextToNothingCountAlike) {
  // Nearly all values are zero, also those of the keys with the largest weights. So results show keys whose weights are
  // as small as float32 allows. Without the exponent bias of running sums, cuts would decide whether these keys count.
  const comm::Communicator comm(MPI_COMM_WORLD);
  std::mt19937_64 random(5);
  for (const bool causal : {false, true}) {
    for (const double scale : {20.0, 30.0, 40.0}) {
      Case one = make(fmt::format("scale {}{}", scale, causal ? ", causal" : ""), {1, 400, 2, 1, 8},
                      {Semantics::longnet, {{}, {all, 2}}, causal, false});
      one.problem.scale = scale;
      Stored stored(one);
      const Index row = stored.problem.kv_row_bytes(), n = one.problem.shape.sequence;
      for (Index i = 0; i < n; ++i) {
        if (i % 40 != 7) std::fill_n(stored.kv.begin() + (n + i) * row, row, std::byte{});
      }
      const Bits expected = stored.alone();
      for (const Way& way : ways(one, random, comm.size())) {
        expect_same_bits(stored, expected, way, comm, one.name);
      }
    }
  }
}

/// Problems whose rows are cut only between granules. A matrix unit, if any, adds a granule at once (kernels::State).
std::vector<Case> granule_cases() {
  const pattern::Documents one{}, several{0, 90, 90, 101, 270}, dealt{0, 90, 200, 260, 320, 420};
  std::vector<Case> cases;
  for (const bool causal : {false, true}) {
    const auto add = [&](const char* name, core::Shape shape, std::vector<pattern::Pair> pairs,
                         const pattern::Documents& documents, core::DType type) {
      cases.push_back(make(fmt::format("{}{}", name, causal ? ", causal" : ""), shape,
                           {Semantics::longnet, std::move(pairs), causal, false}, documents, type));
      cases.back().problem.granule = kernels::granule;
    };
    add("two pairs", {1, 270, 6, 2, 16}, {{96, 1}, {all, 3}}, one, core::DType::bfloat16);
    add("documents", {2, 270, 2, 2, 64}, {{64, 2}, {all, 1}}, several, core::DType::float16);
    add("dense", {1, 210, 2, 1, 8}, {{}}, one, core::DType::float64);
    const pattern::Window near{40, 20}, near_and_first{33, 5, 21};
    add("windows", {1, 270, 4, 2, 16}, {{all, 1, near_and_first}, {all, 3, near}}, several, core::DType::bfloat16);
    add("documents dealt whole", {1, 420, 4, 2, 16}, {{64, 2}, {all, 1}}, dealt, core::DType::bfloat16);
    if (cases.back().problem.backend == core::Backend::host) {  // matrix units of hosts
      const auto add_products = [&](const std::string& name, const std::vector<pattern::Pair>& pairs, core::DType type,
                                    core::Precision precision) {
        add(fmt::format("{}, products of {}", name, core::name_of(precision)).c_str(), {1, 270, 4, 2, 40}, pairs, one,
            type);
        cases.back().problem.precision = precision;
        cases.back().problem.granule = kernels::granule_of(core::Backend::host);
      };
      for (const auto& [type, precision] : {std::pair(core::DType::bfloat16, core::Precision::bfloat16),
                                            std::pair(core::DType::float16, core::Precision::three_bfloat16),
                                            std::pair(core::DType::float32, core::Precision::six_bfloat16)}) {
        add_products("two pairs", {{128, 2}, {}}, type, precision);
        add_products("windows", {{all, 1, near_and_first}, {all, 2, near}}, type, precision);
      }
    }
    if (!kernels::why_no_products(cases.back().problem.backend, core::Precision::tf32).empty()) continue;
    for (const core::Precision precision : {core::Precision::tf32, core::Precision::three_tf32}) {
      add("products of TF32", {1, 210, 2, 1, 32}, {{64, 2}, {}}, one, core::DType::float32);
      cases.back().problem.precision = precision;
    }
  }
  return cases;
}

/// Hosts add key by key, except for products in bfloat16, so any cut gives the same bits. On hosts this test shows
/// that no strategy cuts inside a granule, and that matrix units can read all tensors (kernels::check_granules()). With
/// a GPU, real or emulated, it shows that the bits are the same. kernels_cuda_ordered shows that cuts inside granules
/// give other bits.
TEST(Reproducible, CutsBetweenGranules) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  std::mt19937_64 random(7);
  for (const Case& one : granule_cases()) {
    ASSERT_EQ(pattern::why_no_grid(one.problem.pattern, one.problem.granule), "") << one.name;
    const Stored stored(one);
    const Bits alone = stored.alone();
    const std::vector<Way> all_ways = ways(one, random, comm.size());
    EXPECT_GT(all_ways.size(), 8u) << one.name;
    for (const Way& way : all_ways) expect_same_bits(stored, alone, way, comm, one.name);
  }
}

TEST(Reproducible, CutsInsideAGranuleAreRefused) {
  const comm::Communicator self(MPI_COMM_SELF);
  const Case one = granule_cases()[0];
  const Stored stored(one);
  const pattern::StoredRows rows({{0, 270}}), some({{0, 21}});
  EXPECT_NO_THROW(stored.compute(*find("ring"), {rows}, self, true));
  EXPECT_THROW(pattern::work_lists(one.problem.layout(), rows, pattern::KeyRows::raw(some)), core::Error);
}

/// Whole documents; and, if not causal, also a document that is cut: its rows follow one another from rank to rank, but
/// the rows that a rank has of all documents do not.
TEST(Reproducible, DocumentsDealtWhole) {
  std::vector<Case> cases;
  const pattern::Documents even{0, 30, 61, 90, 121, 150, 181, 210, 240}, uneven{0, 9, 30, 30, 150, 171, 180};
  for (const bool causal : {true, false}) {
    const pattern::Pattern pattern{Semantics::longnet, {{16, 1}, {all, 3}}, causal, false};
    cases.push_back(make(causal ? "even, causal" : "even", {1, 240, 6, 2, 24}, pattern, even));
    if (!causal) cases.push_back(make("one is cut", {2, 180, 6, 3, 24}, pattern, uneven));
  }
  for (Case& one : cases) one.problem.partition = PartitionKind::documents;
  const int ranks = comm::Communicator(MPI_COMM_WORLD).size();
  for (const char* name : {"ring", "ring_blocking", "rotation", "allgather"}) {
    Problem problem = cases.back().problem;
    problem.gradients = true;
    EXPECT_EQ(why_not_reproducible(*find(name), problem, ranks), "") << name;
  }
  compare_all(cases, 6);
}

}  // namespace
}  // namespace annulus::strategies
