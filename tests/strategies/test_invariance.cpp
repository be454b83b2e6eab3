// Reproducible problems: the bits of a row's results do not depend on what else is computed. A part of a problem (some
// batch entries, heads, documents, or the first rows) has the same bits when it is computed on its own;
// test_reproducible.cpp shows the same for ranks and cuts. See docs/same-bits.md.
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "annulus/core/instruction_set.hpp"
#include "annulus/strategies/strategy.hpp"
#include "forward_case.hpp"

namespace annulus::strategies {
namespace {

using core::DType;
using core::Interval;
using pattern::Semantics;
using Bytes = std::vector<std::byte>;

const Index all = pattern::whole_document;

/// A part of an array (B, S, H) of equally large elements.
struct Part {
  Interval batch, rows, heads;
};

/// An array (B, S, H, bytes of an element).
struct Array {
  Index batch = 0, rows = 0, heads = 0;
  Bytes bytes;

  Index width() const { return Index(bytes.size()) / (batch * rows * heads); }
  Array part(const Part& part) const {
    Array taken{part.batch.size(), part.rows.size(), part.heads.size(), {}};
    for (Index b = part.batch.begin; b < part.batch.end; ++b) {
      for (Index x = part.rows.begin; x < part.rows.end; ++x) {
        const auto first = bytes.begin() + ((b * rows + x) * heads + part.heads.begin) * width();
        taken.bytes.insert(taken.bytes.end(), first, first + part.heads.size() * width());
      }
    }
    return taken;
  }
};

/// q and dout have all query heads, k and v the key/value heads.
struct Inputs {
  Array q, k, v, dout;
};

struct Results {
  Array out, lse, entropy, dq, dk, dv;
};

Inputs inputs_of(const Case& one) {
  const AttentionCase numbers = one.numbers();
  const core::Shape& s = one.problem.shape;
  const auto array = [&](const std::vector<double>& values, Index heads) {
    return Array{s.batch, s.sequence, heads, test::to_storage(values, one.problem.type)};
  };
  return {array(numbers.q(), s.heads), array(numbers.k(), s.kv_heads), array(numbers.v(), s.kv_heads),
          array(numbers.dout(), s.heads)};
}

core::Buffer buffer_of(const Bytes& bytes) {
  core::Buffer buffer("test tensor", Index(bytes.size()));
  core::copy_to_device(buffer.data(), bytes.data(), Index(bytes.size()));
  return buffer;
}

/// Computes both passes in this process alone.
Results compute(const Problem& problem, const Inputs& in) {
  const comm::Communicator alone;
  const Strategy& single = *find("single");
  const core::Shape& s = problem.shape;
  const pattern::Partition partition = pattern::root_partition(s.sequence, 1);
  Bytes kv = in.k.bytes;
  kv.insert(kv.end(), in.v.bytes.begin(), in.v.bytes.end());
  Tensors tensors{buffer_of(in.q.bytes), buffer_of(kv), {}, {}};
  single.forward(problem, partition, alone, tensors, {});
  tensors.dout = buffer_of(in.dout.bytes);
  single.backward(problem, partition, alone, tensors, {});
  const auto array = [&](const core::Buffer& buffer, Index heads, Index half, Index halves) {
    Bytes bytes(std::size_t(buffer.bytes()));
    core::copy_to_host(bytes.data(), buffer.data(), buffer.bytes());
    const auto size = long(bytes.size()) / halves;
    return Array{s.batch, s.sequence, heads, Bytes(bytes.begin() + half * size, bytes.begin() + (half + 1) * size)};
  };
  return {array(tensors.out, s.heads, 0, 1),     array(tensors.lse, s.heads, 0, 1),
          array(tensors.entropy, s.heads, 0, 1), array(tensors.dq, s.heads, 0, 1),
          array(tensors.dkv, s.kv_heads, 0, 2),  array(tensors.dkv, s.kv_heads, 1, 2)};
}

/// A part of a case as a problem of its own.
struct Own {
  std::string name;
  Problem problem;
  Part part;                  ///< its heads are query heads
  bool with_key_sums = true;  ///< dk and dv are also those of the whole problem
};

Part key_part(const Own& own, const core::Shape& whole) {
  return {own.part.batch, own.part.rows, pattern::heads_read(own.part.heads, whole.group())};
}

Inputs part_of(const Inputs& in, const Own& own, const core::Shape& whole) {
  const Part keys = key_part(own, whole);
  return {in.q.part(own.part), in.k.part(keys), in.v.part(keys), in.dout.part(own.part)};
}

/// Names of the results whose bits differ from those in the whole problem.
std::string differing(const Results& whole, const Own& own, const core::Shape& shape, const Results& alone) {
  const Part keys = key_part(own, shape);
  std::string names;
  const auto compare = [&](const char* name, const Array& mine, const Array& others, const Part& part) {
    if (others.part(part).bytes != mine.bytes) names += fmt::format(" {}", name);
  };
  compare("out", alone.out, whole.out, own.part);
  compare("lse", alone.lse, whole.lse, own.part);
  compare("entropy", alone.entropy, whole.entropy, own.part);
  compare("dq", alone.dq, whole.dq, own.part);
  if (own.with_key_sums) {
    compare("dk", alone.dk, whole.dk, keys);
    compare("dv", alone.dv, whole.dv, keys);
  }
  return names;
}

Part everything(const core::Shape& s) { return {{0, s.batch}, {0, s.sequence}, {0, s.heads}}; }

Own one_batch_entry(const Problem& problem, Index b) {
  Own own{fmt::format("batch entry {}", b), problem, everything(problem.shape)};
  own.part.batch = {b, b + 1};
  own.problem.shape.batch = 1;
  return own;
}

/// Some query heads, with the offsets that they have in the whole problem.
Own some_heads(const Problem& problem, Interval heads) {
  Own own{fmt::format("heads {} ... {}", heads.begin, heads.end - 1), narrowed(problem, heads),
          everything(problem.shape)};
  own.part.heads = heads;
  return own;
}

Own one_document(const Problem& problem, std::size_t which) {
  const Interval rows{problem.documents[which], problem.documents[which + 1]};
  Own own{fmt::format("document {}", which), problem, everything(problem.shape)};
  own.part.rows = rows;
  own.problem.shape.sequence = rows.size();
  own.problem.documents = {0, rows.size()};
  if (problem.documents.is_gap(Index(which))) own.problem.documents.gaps = {0};
  return own;
}

/// The first rows of a causal problem, or of one where no segment crosses the cut: none of them sees a later row.
/// Later rows may see them; then dk and dv are those of the whole problem only if later rows contribute nothing.
Own first_rows(const Problem& problem, Index rows, bool with_key_sums) {
  Own own{fmt::format("the first {} rows", rows), problem, everything(problem.shape), with_key_sums};
  own.part.rows = {0, rows};
  own.problem.shape.sequence = rows;
  own.problem.documents = {0, rows};
  return own;
}

Case make(const std::string& name, core::Shape shape, pattern::Pattern pattern, pattern::Documents documents = {},
          DType type = DType::float32) {
  Case one = make_case(name, shape, std::move(pattern), std::move(documents), type);
  one.problem.reproducible = one.problem.gradients = one.problem.statistics.entropy = true;
  return one;
}

/// Sets dout of the rows from `first` on to 0.
Inputs without_later_gradients(Inputs in, Index first) {
  const Index row = in.dout.heads * in.dout.width();
  for (Index b = 0; b < in.dout.batch; ++b) {
    std::fill_n(in.dout.bytes.begin() + (b * in.dout.rows + first) * row, (in.dout.rows - first) * row, std::byte{});
  }
  return in;
}

class Invariance : public testing::Test {
 protected:
  void TearDown() override { core::limit_instruction_set(before_); }

  /// Compares every part with the whole, with every instruction set.
  static void expect_same_bits(const Case& one, const Inputs& in, const std::vector<Own>& parts) {
    for (const core::InstructionSet set : core::usable_instruction_sets()) {
      core::limit_instruction_set(set);
      const Results whole = compute(one.problem, in);
      for (const Own& own : parts) {
        const core::Shape& shape = one.problem.shape;
        EXPECT_EQ(differing(whole, own, shape, compute(own.problem, part_of(in, own, shape))), "")
            << one.name << ", " << own.name << ", " << name_of(set);
      }
    }
  }
  static void expect_same_bits(const Case& one, const std::vector<Own>& parts) {
    expect_same_bits(one, inputs_of(one), parts);
  }

 private:
  const core::InstructionSet before_ = core::best_instruction_set();
};

const std::vector<pattern::Pair> three_pairs{{32, 1}, {96, 3}, {all, 4}};

/// Every semantics, causal and not, with 6 query heads and 6 or 2 key/value heads.
std::vector<Case> semantics(core::Shape shape, const pattern::Documents& documents = {}) {
  std::vector<Case> cases;
  for (const auto& entry : pattern::semantics_table) {
    for (const bool causal : {false, true}) {
      for (const Index kv_heads : {6, 2}) {
        shape.kv_heads = kv_heads;
        const pattern::Pattern pattern{entry.value, three_pairs, causal, entry.value == Semantics::grouped};
        cases.push_back(make(fmt::format("{}{}, {} K/V heads", entry.name, causal ? ", causal" : "", kv_heads), shape,
                             pattern, documents));
      }
    }
  }
  return cases;
}

TEST_F(Invariance, BatchEntriesAlone) {
  for (const Case& one : semantics({3, 131, 6, 6, 24})) {
    expect_same_bits(one, {one_batch_entry(one.problem, 0), one_batch_entry(one.problem, 2)});
  }
}

TEST_F(Invariance, HeadsAlone) {
  for (const Case& one : semantics({1, 131, 6, 6, 24})) {
    const Index group = one.problem.shape.group();
    expect_same_bits(one, {some_heads(one.problem, {0, group}), some_heads(one.problem, {6 - 2 * group, 6 - group}),
                           some_heads(one.problem, {group, 6})});
  }
}

TEST_F(Invariance, HeadsOfADenseProblemAreProblemsOfTheirOwn) {
  Case one = make("dense", {2, 200, 4, 4, 40}, {Semantics::longnet, {{}}, true, false});
  Own own = some_heads(one.problem, {2, 3});
  own.problem.share.reset();  // without offsets: a head's number does not matter
  expect_same_bits(one, {own});
}

TEST_F(Invariance, DocumentsAlone) {
  const pattern::Documents documents{0, 1, 78, 78, 243, 260};
  for (const Case& one : semantics({1, 260, 6, 6, 24}, documents)) {
    std::vector<Own> parts;
    for (const std::size_t which : {0, 1, 3, 4}) parts.push_back(one_document(one.problem, which));
    expect_same_bits(one, parts);
  }
}

TEST_F(Invariance, FirstRowsOfACausalSequence) {
  for (const Case& one : semantics({1, 211, 6, 6, 24})) {
    if (!one.problem.pattern.causal) continue;
    for (const Index rows : {1, 32, 100, 210}) {
      expect_same_bits(one, {first_rows(one.problem, rows, false)});
      expect_same_bits(one, without_later_gradients(inputs_of(one), rows), {first_rows(one.problem, rows, true)});
    }
  }
}

TEST_F(Invariance, FirstRowsUpToTheEndOfAllSegments) {
  for (Case& one : semantics({1, 211, 6, 6, 24})) {
    one.problem.pattern.pairs = {{32, 1}, {96, 3}};
    expect_same_bits(one, {first_rows(one.problem, 96, true), first_rows(one.problem, 192, true)});
  }
}

/// Many tiles, whose borders are elsewhere if a part is computed alone; a batch, documents, and heads that share keys.
TEST_F(Invariance, EveryStorageTypeAndPrecisionWithManyTiles) {
  for (const DType type : core::all_dtypes) {
    for (const bool causal : {false, true}) {
      for (const core::Precision precision : core::all_precisions) {
        if (!core::takes(precision, type) || (type == DType::float64 && precision == core::Precision::float32) ||
            !core::why_no_fixed_order(precision).empty())
          continue;
        Case one =
            make(fmt::format("{}, {} sums{}", core::name_of(type), core::name_of(precision), causal ? ", causal" : ""),
                 {2, 400, 4, 2, 64}, {Semantics::longnet, {{}, {256, 2}}, causal, false}, {0, 183, 400}, type);
        one.problem.precision = precision;
        std::vector<Own> parts{one_batch_entry(one.problem, 1), some_heads(one.problem, {2, 4}),
                               one_document(one.problem, 0), one_document(one.problem, 1)};
        expect_same_bits(one, parts);
        if (!causal) continue;
        one.problem.documents = {0, 400};
        expect_same_bits(one, {first_rows(one.problem, 317, false)});
        expect_same_bits(one, without_later_gradients(inputs_of(one), 317), {first_rows(one.problem, 317, true)});
      }
    }
  }
}

/// More keys than the smallest task of the backward pass has: threads cut the whole problem and its parts differently.
TEST_F(Invariance, MoreKeysThanATask) {
  Case one = make("long", {2, 1000, 2, 1, 32}, {Semantics::longnet, {{}}, true, false}, {0, 200, 1000});
  expect_same_bits(one, {one_batch_entry(one.problem, 1), one_document(one.problem, 1)});
  one.problem.documents = {0, 1000};
  expect_same_bits(one, without_later_gradients(inputs_of(one), 611), {first_rows(one.problem, 611, true)});
}

/// The kernels for GPUs, run on CPUs.
TEST_F(Invariance, OfTeamsOnADevice) {
  Case one = make("device", {2, 150, 4, 2, 24}, {Semantics::longnet, {{}, {64, 2}}, true, false}, {0, 70, 150});
  one.problem.backend = kernels::Backend::device;
  expect_same_bits(one, {one_batch_entry(one.problem, 1), some_heads(one.problem, {2, 4}), one_document(one.problem, 0),
                         one_document(one.problem, 1)});
  one.problem.documents = {0, 150};
  expect_same_bits(one, without_later_gradients(inputs_of(one), 101), {first_rows(one.problem, 101, true)});
}

/// Sums granule by granule, as matrix units make them; hosts without such units add key by key. The parts end inside a
/// granule.
TEST_F(Invariance, OfGranules) {
  for (const DType type : {DType::bfloat16, DType::float16, DType::float64}) {
    for (const bool causal : {false, true}) {
      Case one = make(fmt::format("{}{}", core::name_of(type), causal ? ", causal" : ""), {2, 150, 4, 2, 24},
                      {Semantics::longnet, {{}, {64, 2}}, causal, false}, {0, 70, 150}, type);
      one.problem.statistics = {};  // not possible with granules
      one.problem.granule = kernels::granule;
      expect_same_bits(one, {one_batch_entry(one.problem, 1), some_heads(one.problem, {2, 4}),
                             one_document(one.problem, 0), one_document(one.problem, 1)});
      one.problem.documents = {0, 150};
      if (causal) {
        expect_same_bits(one, without_later_gradients(inputs_of(one), 101), {first_rows(one.problem, 101, true)});
      } else {
        one.problem.pattern.pairs = {{32, 1}, {64, 2}};
        expect_same_bits(one, {first_rows(one.problem, 64, true), first_rows(one.problem, 128, true)});
      }
    }
  }
}

TEST_F(Invariance, RandomSettings) {
  const std::uint64_t seed = 20261123;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, 130);
    const pattern::Layout& layout = drawn.layout;
    Case one = make(fmt::format("seed {}, case {}: {}", seed, i, test::describe(drawn)),
                    {1 + Index(random() % 3), drawn.n, layout.heads, layout.kv_heads, 1 + Index(random() % 70)},
                    layout.pattern, layout.documents, core::all_dtypes[random() % core::all_dtypes.size()]);
    one.seed = random();
    one.problem.scale *= std::array{1.0, 30.0, 1000.0}[random() % 3];  // scores up to some thousands, far apart
    std::vector<Own> parts{one_batch_entry(one.problem, one.problem.shape.batch - 1),
                           some_heads(one.problem, {layout.heads - one.problem.shape.group(), layout.heads})};
    for (std::size_t which = 0; which + 1 < layout.documents.size(); ++which) {
      if (layout.documents[which] < layout.documents[which + 1]) parts.push_back(one_document(one.problem, which));
    }
    expect_same_bits(one, parts);
    if (!layout.pattern.causal) continue;
    one.problem.documents = {0, drawn.n};
    expect_same_bits(one, {first_rows(one.problem, 1 + Index(random() % std::uint64_t(drawn.n)), false)});
  }
}

/// By the definition, results of these parts depend on the rest. So bits differ, and the comparison can fail for every
/// result.
TEST_F(Invariance, EndsWhereTheDefinitionMakesAPartDependOnTheRest) {
  const auto differing_parts = [](const Case& one, const Own& own) {
    const Inputs in = inputs_of(one);
    const core::Shape& shape = one.problem.shape;
    return differing(compute(one.problem, in), own, shape, compute(own.problem, part_of(in, own, shape)));
  };
  const core::Shape shape{1, 96, 4, 4, 24};
  Case one = make("causal", shape, {Semantics::longnet, {{}, {all, 2}}, true, false});
  EXPECT_EQ(differing_parts(one, first_rows(one.problem, 60, true)), " dk dv") << "later rows see these keys";
  Own own = some_heads(one.problem, {3, 4});
  own.problem.share.reset();
  EXPECT_EQ(differing_parts(one, own), " out lse entropy dq dk dv") << "another offset";
  one = make("not causal", shape, {Semantics::longnet, {{}}, false, false});
  EXPECT_EQ(differing_parts(one, first_rows(one.problem, 60, true)), " out lse entropy dq dk dv");
  own = first_rows(one.problem, 60, true);
  one.problem.pattern.pairs = own.problem.pattern.pairs = {{64, 1}};
  EXPECT_EQ(differing_parts(one, own), " out lse entropy dq dk dv") << "a segment is cut";
}

}  // namespace
}  // namespace annulus::strategies
