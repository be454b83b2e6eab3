// The cases with which every strategy is tested, forward and backward.
#pragma once

#include "forward_case.hpp"

#include "annulus/kernels/backend_description.hpp"

namespace annulus::strategies {

constexpr std::uint64_t seed = 20261121;

/// Calls check(strategy, case, comm) for every case, every strategy and every partition, also the partition that a
/// strategy chooses if none is named. If one_in > 1, it makes only one in `one_in` of these calls, drawn with a seed.
template <class Check>
void for_every_strategy(const std::vector<Case>& cases, int one_in, Check&& check) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  static std::mt19937_64 random(seed + std::uint64_t(comm.size()));  // the same draws on all ranks
  std::vector<std::optional<pattern::PartitionKind>> kinds{std::nullopt};
  for (const pattern::PartitionEntry& entry : pattern::partition_table) kinds.push_back(entry.value);
  for (const Case& one : cases) {
    const bool is_packed = one.problem.documents.size() > 2;
    for (const Strategy* strategy : available()) {
      for (const auto partition : kinds) {
        if (partition == pattern::PartitionKind::documents && !is_packed) continue;  // is zigzag or contiguous
        if (random() % std::uint64_t(one_in) != 0) continue;
        Case cut = one;
        cut.problem.partition = partition;
        cut.problem.ulysses_ranks = comm.size() % 2 == 0 ? 2 : 1;
        cut.name += partition ? ", " + std::string(pattern::partition_table[std::size_t(*partition)].name) : ", auto";
        check(*strategy, cut, comm);
      }
    }
  }
}

/// All semantics, causal or not, with grouped heads and documents. Causal torchscale equals longnet, so it is here only
/// with Hkv = 2.
inline std::vector<Case> semantics_cases() {
  std::vector<Case> cases;
  for (const auto& semantics : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      for (const Index kv_heads : {6, 2, 1}) {
        if (semantics.value == pattern::Semantics::torchscale && causal && kv_heads != 2) continue;
        for (const pattern::Documents& documents : {pattern::Documents{}, pattern::Documents{0, 11, 11, 40, 53}}) {
          const std::string name = std::string(semantics.name) + (causal ? " causal" : "") + " Hkv " +
                                   std::to_string(kv_heads) + " documents " + std::to_string(documents.size());
          const pattern::Pattern pattern{
              semantics.value, {{8, 1}, {20, 3}, {pattern::whole_document, 4}}, causal, false};
          cases.push_back(make_case(name, {1, 53, 6, kv_heads, 8}, test::without_displacement(pattern), documents));
        }
      }
    }
  }
  return cases;
}

/// Cases with sliding windows: causal or not, dilated, with first rows, longer than a rank's rows or than a document,
/// mixed with segments.
inline std::vector<Case> window_cases() {
  using pattern::Semantics, pattern::Window;
  const Index all = pattern::whole_document;
  const pattern::Documents documents{0, 11, 11, 40, 53};
  return {
      make_case("window, causal", {2, 97, 4, 2, 12}, {Semantics::longnet, {{all, 1, Window{9, 0}}}, true, false}),
      make_case("window over ranks", {1, 90, 4, 1, 24}, {Semantics::longnet, {{all, 1, Window{50, 7}}}, false, false}),
      make_case("dilated window, documents", {1, 53, 6, 2, 8},
                {Semantics::paper, {{all, 3, Window{2, 4}}}, false, false}, documents),
      make_case("window and segments", {1, 64, 6, 3, 8},
                {Semantics::longnet, {{16, 1}, {all, 2, Window{5, 0}}, {all, 4}}, true, false}),
      make_case("window and first rows, causal", {1, 71, 4, 2, 16},
                {Semantics::longnet, {{all, 1, Window{6, 0, 3}}}, true, false}),
      make_case("window and first rows, documents", {1, 53, 4, 2, 16},
                {Semantics::longnet, {{all, 1, Window{3, 2, 30}}, {8, 2}}, false, false}, documents),
      make_case("windows of groups", {1, 60, 5, 5, 8},
                {Semantics::grouped, {{all, 1, Window{4, 1}}, {all, 2, Window{3, 3}}, {8, 2}}, false, true}),
      make_case("window of fewer rows than ranks", {2, 3, 2, 1, 5},
                {Semantics::longnet, {{all, 1, Window{1, 1, 1}}}, false, false}),
      make_case("window of a row, dilation above n", {1, 29, 2, 2, 8},
                {Semantics::longnet, {{all, 50, Window{1, 1}}, {all, 1, Window{0, 0}}}, false, false}),
  };
}

inline std::vector<Case> awkward_cases() {
  using pattern::Semantics;
  const Index all = pattern::whole_document;
  return {
      make_case("one row", {1, 1, 1, 1, 1}, {Semantics::longnet, {{}}, true, false}),
      make_case("fewer rows than ranks", {2, 3, 2, 1, 5}, {Semantics::paper, {{2, 1}, {all, 2}}, false, false}),
      make_case("n prime, batch 3", {3, 97, 4, 2, 31}, {Semantics::longnet, {{32, 1}, {64, 4}}, true, false}),
      make_case("segments longer than n", {1, 29, 4, 4, 16}, {Semantics::longnet, {{1000, 2}, {77, 1}}, false, false}),
      make_case("r > w and H < r", {1, 40, 2, 2, 12}, {Semantics::paper, {{4, 9}, {16, 16}}, true, false}),
      make_case("rows that see nothing", {1, 40, 2, 2, 12}, {Semantics::longnet, {{20, 7}}, false, false}),
      make_case("heads of 256", {1, 20, 2, 1, 256}, {Semantics::longnet, {{8, 2}, {all, 1}}, true, false}),
      make_case("heads of 80", {1, 70, 3, 3, 80}, {Semantics::longnet, {{all, 1}}, true, false}),
      make_case("group_scale", {1, 60, 5, 5, 8}, {Semantics::grouped, {{8, 1}, {all, 2}}, false, true}),
      make_case("many hops, dense", {2, 64, 2, 2, 8}, {Semantics::longnet, {{all, 1}}, false, false}),
      make_case("more filled in than there", {2, 35, 3, 1, 24},
                {Semantics::torchscale, {{33, 1}, {all, 8}}, false, false}),
  };
}

inline std::vector<Case> storage_cases() {
  std::vector<Case> cases;
  for (const core::DType type : core::all_dtypes) {
    for (const bool causal : {false, true}) {
      const pattern::Pattern pattern{
          pattern::Semantics::longnet, {{16, 1}, {pattern::whole_document, 3}}, causal, false};
      cases.push_back(make_case(std::string(core::name_of(type)), {2, 45, 4, 2, 24}, pattern, {}, type));
    }
    const pattern::Pattern filled{
        pattern::Semantics::torchscale, {{16, 1}, {pattern::whole_document, 4}}, false, false};
    cases.push_back(make_case(std::string(core::name_of(type)) + " filled in", {2, 45, 4, 2, 24}, filled, {}, type));
  }
  for (Case products : std::vector<Case>(cases)) {
    if (products.problem.type == core::DType::float64) continue;
    products.problem.precision = products.problem.type == core::DType::bfloat16  ? core::Precision::bfloat16
                                 : products.problem.type == core::DType::float16 ? core::Precision::three_bfloat16
                                                                                 : core::Precision::six_bfloat16;
    // Only causal cases, because without matrix units, products of numbers in parts take long.
    if (core::is_split(products.problem.precision) && !products.problem.pattern.causal) continue;
    products.name += fmt::format(", products of {}", core::name_of(products.problem.precision));
    if (kernels::why_no_products(products.problem.backend, products.problem.precision).empty())
      cases.push_back(products);
  }
  for (Case doubled : std::vector<Case>(cases)) {
    if (doubled.problem.type != core::DType::float32 || doubled.problem.pattern.causal) continue;
    doubled.problem.precision = core::Precision::float64;
    doubled.name += " with float64 accumulation";
    cases.push_back(doubled);
  }
  return cases;
}

inline std::vector<Case> device_cases() {
  Case one = make_case("device tiles", {2, 53, 4, 2, 20},
                       {pattern::Semantics::longnet, {{8, 1}, {pattern::whole_document, 3}}, true, false}, {0, 30, 53});
  Case filled =
      make_case("device tiles, filled in", {2, 53, 4, 2, 20},
                {pattern::Semantics::torchscale, {{8, 1}, {pattern::whole_document, 4}}, false, false}, {0, 30, 53});
  Case windows = make_case("device tiles, windows", {2, 53, 4, 2, 20},
                           {pattern::Semantics::longnet,
                            {{pattern::whole_document, 1, pattern::Window{5, 3, 4}},
                             {8, 2},
                             {pattern::whole_document, 3, pattern::Window{3, 0}}},
                            false,
                            false},
                           {0, 30, 53});
  one.problem.backend = filled.problem.backend = windows.problem.backend = kernels::Backend::device;
  return {one, filled, windows};
}

/// Documents with gaps between them and at both ends of the sequence. Rows in gaps belong to no document.
inline std::vector<Case> gap_cases() {
  std::vector<Case> cases;
  for (const auto& semantics : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      const pattern::Pattern pattern{semantics.value, {{8, 1}, {20, 3}, {pattern::whole_document, 4}}, causal, false};
      for (const auto& ranges : {std::vector<core::Interval>{{0, 31}}, {{2, 12}, {12, 12}, {20, 45}}, {{52, 53}}, {}}) {
        cases.push_back(
            make_case(fmt::format("{}{}, {} ranges", semantics.name, causal ? " causal" : "", ranges.size()),
                      {2, 53, 6, 2, 8}, test::without_displacement(pattern), pattern::documents_at(ranges, 53)));
      }
    }
  }
  return cases;
}

/// Every one_in-th case, with sink logits.
inline std::vector<Case> with_sinks(std::vector<Case> cases, std::size_t one_in) {
  std::vector<Case> some;
  for (std::size_t i = 0; i < cases.size(); i += one_in) {
    some.push_back(cases[i]);
    some.back().problem.sink = true;
    some.back().name += ", sinks";
  }
  return some;
}

/// Score rule `number` modulo 5: 0 a cap, 1 ALiBi by rows, 2 ALiBi in the plane with exempt rows, 3 ALiBi in the plane
/// with a slope of 0, 4 a cap and ALiBi by rows with exempt rows and a slope of 0. torchscale always gets rule 0.
inline kernels::ScoreRule rule_number(std::size_t number, const Problem& problem) {
  kernels::ScoreRule rule;
  const std::size_t kind = problem.pattern.semantics == pattern::Semantics::torchscale ? 0 : number % 5;
  if (kind == 0 || kind == 4) rule.cap = number % 2 == 0 ? 0.8 : 20;
  if (kind == 0) return rule;
  rule.slopes = kernels::alibi_slopes(problem.shape.heads);
  if (kind > 2) rule.slopes[0] = 0;
  if (kind % 2 == 0) rule.exempt = 3;
  std::vector<double> places;
  for (Index row = 0; row < problem.shape.sequence; ++row) {
    const Index place = row % 5 == 2 ? row - 1 : row;  // some rows are where the row before them is
    places.insert(places.end(), {double(place % 6) * 1.25 - 100, double(place - place % 6) / 18});
  }
  if (kind == 2 || kind == 3) rule.coordinates = std::make_shared<kernels::Coordinates>(places);
  return rule;
}

/// Every one_in-th case, with a score rule.
inline std::vector<Case> with_rules(std::vector<Case> cases, std::size_t one_in) {
  std::vector<Case> some;
  for (std::size_t i = 0; i < cases.size(); i += one_in) {
    some.push_back(cases[i]);
    some.back().problem.rule = rule_number(i / one_in, cases[i].problem);
    some.back().name += fmt::format(", rule {}", i / one_in % 5);
  }
  return some;
}

/// 60 random cases; each number of ranks draws other cases.
inline std::vector<Case> random_cases() {
  const std::uint64_t own_seed = seed + 100 * std::uint64_t(comm::Communicator(MPI_COMM_WORLD).size());
  std::mt19937_64 random(own_seed);
  std::vector<Case> cases;
  for (int i = 0; i < 60; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, 70);
    const Index head_dim = 1 + Index(random() % 40);
    Case one =
        make_case("seed " + std::to_string(own_seed) + " case " + std::to_string(i) + ": " + test::describe(drawn),
                  {1 + Index(random() % 2), drawn.n, drawn.layout.heads, drawn.layout.kv_heads, head_dim},
                  drawn.layout.pattern, drawn.layout.documents);
    one.seed = random();
    cases.push_back(one);
  }
  return cases;
}

/// Every one_in-th case, with values whose head size is, in turn, smaller and larger than that of keys. Cases whose
/// back end takes no such values are left out; test_problem_checks.cpp tests that the back end refuses
/// them.
inline std::vector<Case> with_values(const std::vector<Case>& cases, std::size_t one_in) {
  std::vector<Case> some;
  for (std::size_t i = 0; i < cases.size(); i += one_in) {
    if (!kernels::why_no_value_dim(cases[i].problem.backend).empty()) continue;
    some.push_back(cases[i]);
    core::Shape& shape = some.back().problem.shape;
    shape.set_value_dim(i / one_in % 2 == 0 ? 2 * shape.head_dim / 3 + 1 : shape.head_dim + 1 + Index(i % 9));
    some.back().name += fmt::format(", values of {}", shape.dim_of_values());
  }
  return some;
}

inline std::vector<Case> sink_cases() {
  std::vector<Case> cases = with_sinks(semantics_cases(), 3);
  for (const auto& more : {with_sinks(gap_cases(), 5), with_sinks(awkward_cases(), 1), with_sinks(storage_cases(), 1),
                           with_sinks(device_cases(), 1), with_sinks(random_cases(), 4)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

inline std::vector<Case> rule_cases() {
  std::vector<Case> cases = with_rules(semantics_cases(), 3);
  for (const auto& more :
       {with_rules(awkward_cases(), 1), with_rules(storage_cases(), 1), with_rules(window_cases(), 1),
        with_rules(device_cases(), 1), with_rules(random_cases(), 3)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  cases[1].problem.sink = true;
  return cases;
}

inline std::vector<Case> value_cases() {
  const pattern::Pattern dense{pattern::Semantics::longnet, {{}}, true, false};
  std::vector<Case> cases = with_values(semantics_cases(), 3);
  for (const auto& more :
       {with_values(awkward_cases(), 1), with_values(storage_cases(), 1), with_values(window_cases(), 2),
        with_values(gap_cases(), 7), with_values(sink_cases(), 5), with_values(rule_cases(), 5),
        with_values(random_cases(), 3),
        with_values({make_case("latent", {1, 37, 4, 1, 576}, dense), make_case("heads", {1, 40, 3, 3, 128}, dense)},
                    1)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace annulus::strategies
