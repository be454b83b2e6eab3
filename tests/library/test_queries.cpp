// Fewer or more queries than keys, through the library on 1 to 4 ranks: compared with the float64 definition; and which
// rows a rank has.
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "annulus/library/reference.hpp"
#include "small_case.hpp"

namespace annulus::test {
namespace {

constexpr Index keys = 37, heads = 4, kv_heads = 2, dim = 5, batch = 2;

struct Queries {
  std::string name;
  Index count;
  Pattern pattern;
  Options options = {};
};

/// The definition: all rows of the sequence are queries; those that are no queries of the case have dout = dlse = 0.
struct Definition {
  Definition(const Queries& one, Index first) : square{{batch, keys, heads, kv_heads, dim}, {}, DType::float64, 3, 1} {
    Shape shape = small;
    square.pattern = reference_of({one.name, shape, one.pattern});
    q = square.q();
    dout = square.dout();
    dlse = square.dlse();
    for (std::vector<double>* const gradient : {&dout, &dlse}) {
      const Index width = Index(gradient->size()) / (batch * keys);
      for (std::size_t i = 0; i < gradient->size(); ++i) {
        const Index x = Index(i) / width % keys;
        if (x < first || x >= first + one.count) (*gradient)[i] = 0;
      }
    }
    forward = kernels::reference_forward(square.shape, square.pattern, q, square.k(), square.v());
    backward = kernels::reference_backward(square.shape, square.pattern, q, square.k(), square.v(), dout, dlse);
  }

  AttentionCase square;
  std::vector<double> q, dout, dlse;
  kernels::ReferenceResult forward;
  kernels::ReferenceGradients backward;
};

std::vector<Interval> shifted(const Rows& rows, Index by) {
  std::vector<Interval> moved;
  for (const Interval& one : rows.intervals) moved.push_back({one.begin + by, one.end + by});
  return moved;
}

void expect_definition(const Queries& one, Index first, TensorLayout lies, const Communicator& comm) {
  SCOPED_TRACE(one.name);
  Shape shape{.batch = batch, .sequence = one.count, .heads = heads, .kv_heads = kv_heads, .head_dim = dim};
  shape.type = DType::float64;
  shape.kv_sequence = keys;
  Options options = one.options;
  options.gradients = true;
  const Plan plan(shape, one.pattern, comm.size(), options);
  const Definition truth(one, first);
  const std::vector<Interval> own_keys = plan.rows(comm.rank()).intervals,
                              queries = shifted(plan.query_rows(comm.rank()), first);
  const auto of_keys = [&](const std::vector<double>& whole) { return take_rows(whole, batch, keys, own_keys); };
  const auto of_queries = [&](const std::vector<double>& whole) { return take_rows(whole, batch, keys, queries); };
  const Index k_rows = plan.rows(comm.rank()).count(), q_rows = plan.query_rows(comm.rank()).count();
  const std::array<Index, 4> qs{batch, q_rows, heads, dim}, ks{batch, k_rows, kv_heads, dim},
      ls{batch, q_rows, heads, 1};
  const DType type = DType::float64;
  const TestTensor q(of_queries(truth.q), type, qs, lies), k(of_keys(truth.square.k()), type, ks, lies),
      v(of_keys(truth.square.v()), type, ks, lies), dout(of_queries(truth.dout), type, qs, lies),
      dlse(of_queries(truth.dlse), type, ls, lies);
  const TestTensor out(type, qs, lies), lse(type, ls, lies), dq(type, qs, lies), dk(type, ks, lies), dv(type, ks, lies);
  const Normalizers kept = forward(comm, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
  backward(comm, plan, kept,
           {q.tensor(), k.tensor(), v.tensor(), out.tensor(), dout.tensor(), dlse.tensor(), dq.tensor(), dk.tensor(),
            dv.tensor()});
  EXPECT_TRUE(close_to(out.values(), of_queries(truth.forward.out), 1e-12)) << "out";
  EXPECT_TRUE(close_to(lse.values(), of_queries(truth.forward.lse), 1e-12)) << "lse";
  EXPECT_TRUE(close_to(dq.values(), of_queries(truth.backward.dq), 1e-11)) << "dq";
  EXPECT_TRUE(close_to(dk.values(), of_keys(truth.backward.dk), 1e-11)) << "dk";
  EXPECT_TRUE(close_to(dv.values(), of_keys(truth.backward.dv), 1e-11)) << "dv";
}

TEST(LibraryQueries, AreAnIntervalOfTheSequence) {
  const Communicator comm(MPI_COMM_WORLD);
  Pattern last = dilated, middle = dilated, first = dilated;
  middle.query_offset = 11;
  first.query_offset = 0;
  middle.documents = {0, 9, 20, 37};
  first.causal = false;
  first.segments = {Window{3, 2}, all};
  first.dilations = {2, 5};
  for (const char* const strategy : {"auto", "ring", "rotation", "allgather", "ulysses", "onesided"}) {
    Options options;
    options.strategy = strategy;
    for (const TensorLayout lies : {TensorLayout::bshd, TensorLayout::bhsd}) {
      if (lies == TensorLayout::bhsd && options.strategy != "auto") continue;
      expect_definition({std::string(strategy) + ", last rows", 8, last, options}, keys - 8, lies, comm);
      expect_definition({std::string(strategy) + ", one row", 1, last, options}, keys - 1, lies, comm);
      expect_definition({std::string(strategy) + ", from row 11", 14, middle, options}, 11, lies, comm);
      options.partition = "zigzag";
      expect_definition({std::string(strategy) + ", first rows, zigzag", 30, first, options}, 0, lies, comm);
      options.partition = "auto";
    }
  }
}

/// Rows of q are numbered from the first query; the ranks together have each row once.
TEST(LibraryQueries, PlanSaysWhichRowsARankHolds) {
  Shape shape{.sequence = 8, .heads = 2, .head_dim = 4, .kv_sequence = 37};
  Pattern pattern;
  pattern.query_offset = 20;
  for (const Index offset : {Index(20), last_rows, no_rows}) {
    for (const Index count : {8, 50}) {
      if (count > 37 && offset != no_rows) continue;
      for (const int ranks : {1, 3, 4}) {
        shape.sequence = count;
        pattern.query_offset = offset;
        const Plan plan(shape, pattern, ranks, "ring");
        std::vector<Index> seen(static_cast<std::size_t>(count)), keys_seen(37);
        for (int p = 0; p < ranks; ++p) {
          for (const Interval& rows : plan.query_rows(p).intervals)
            for (Index i = rows.begin; i < rows.end; ++i) ++seen.at(std::size_t(i));
          for (const Interval& rows : plan.rows(p).intervals)
            for (Index i = rows.begin; i < rows.end; ++i) ++keys_seen.at(std::size_t(i));
        }
        EXPECT_EQ(seen, std::vector<Index>(std::size_t(count), 1)) << offset << ", " << ranks << " ranks";
        EXPECT_EQ(keys_seen, std::vector<Index>(37, 1)) << offset << ", " << ranks << " ranks";
      }
    }
  }
}

/// Cross attention with more queries than keys gives the same numbers as two calls with parts of the queries, and as
/// reference().
TEST(LibraryQueries, WithoutRowNumbers) {
  const Communicator alone;
  Pattern pattern;
  pattern.query_offset = no_rows;
  const DType type = DType::float64;
  const AttentionCase numbers{{batch, keys, heads, heads, dim}, {}, type, 5, 1};
  const std::array<Index, 4> ks{batch, keys, heads, dim};
  std::vector<double> k_on_host = numbers.k(), v_on_host = numbers.v();
  const TestTensor k(k_on_host, type, ks), v(v_on_host, type, ks);
  struct Results {
    std::vector<double> out, lse, by_definition;
  };
  const auto results = [&](Index begin, Index end) {
    Shape shape{.batch = batch, .sequence = end - begin, .heads = heads, .head_dim = dim};
    shape.type = type;
    shape.kv_sequence = keys;
    const Plan plan(shape, pattern);
    const std::array<Index, 4> qs{batch, end - begin, heads, dim};
    const std::vector<double> whole = random_values(core::TensorId::q, batch * 60 * heads * dim, type, 8);
    std::vector<double> q_on_host = take_rows(whole, batch, 60, {{begin, end}});
    const TestTensor q(q_on_host, type, qs);
    const TestTensor out(type, qs), lse(type, {batch, end - begin, heads, 1});
    forward(alone, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
    std::vector<Index> rows;
    for (Index i = 0; i < end - begin; ++i) rows.push_back(i);
    Results made{out.values(), lse.values(), std::vector<double>(out.values().size())};
    std::vector<double> logarithms(made.lse.size());
    reference(plan, contiguous(q_on_host.data(), type, qs), contiguous(k_on_host.data(), type, ks),
              contiguous(v_on_host.data(), type, ks), rows, made.by_definition.data(), logarithms.data());
    EXPECT_TRUE(close_to(made.lse, logarithms, 1e-12));
    EXPECT_TRUE(close_to(made.out, made.by_definition, 1e-12));
    return made;
  };
  const Results all_rows = results(0, 60), early = results(0, 29), late = results(29, 60);
  EXPECT_TRUE(close_to(take_rows(all_rows.out, batch, 60, {{0, 29}}), early.out, 1e-12));
  EXPECT_TRUE(close_to(take_rows(all_rows.out, batch, 60, {{29, 60}}), late.out, 1e-12));
}

std::string refusal(Index queries, const Pattern& pattern, const Options& options = {}, int ranks = 2) {
  Shape shape{.sequence = queries, .heads = 4, .head_dim = 2, .kv_sequence = 8};
  try {
    const Plan plan(shape, pattern, ranks, options);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(LibraryQueries, RefusesWhatMakesNoSense) {
  Pattern pattern;
  EXPECT_EQ(refusal(5, pattern), "");
  EXPECT_EQ(
      refusal(9, pattern),
      "plan: query_offset is auto, q has 9 rows and k 8: only queries without row numbers may be more than the keys; "
      "expected none");
  pattern.query_offset = 4;
  EXPECT_EQ(refusal(4, pattern), "");
  EXPECT_EQ(refusal(5, pattern), "plan: query_offset is 4, q has 5 rows and k 8: expected 0 to 3, auto or none");
  pattern.query_offset = -7;
  EXPECT_EQ(refusal(5, pattern), "plan: query_offset is -7, q has 5 rows and k 8: expected 0 to 3, auto or none");
  pattern.query_offset = no_rows;
  EXPECT_EQ(refusal(9, pattern), "");
  const std::string see = "plan: query_offset is none: queries without row numbers see every key, and ",
                    expected = "; expected dense attention, not causal";
  Pattern other = pattern;
  other.causal = true;
  EXPECT_EQ(refusal(9, other), see + "causal is true" + expected);
  other = pattern;
  other.documents = {0, 3, 8};
  EXPECT_EQ(refusal(9, other), see + "there are documents" + expected);
  other = pattern;
  other.segments = {4};
  EXPECT_EQ(refusal(9, other), see + "a segment is 4" + expected);
  other.segments = {Window{3, 3}};
  EXPECT_EQ(refusal(9, other), see + "a segment is {window: [3, 3]}" + expected);
  other.segments = {all};
  other.dilations = {2};
  EXPECT_EQ(refusal(9, other), see + "a dilation is 2" + expected);
  other.segments = {all, all};
  other.dilations = {1, 1};
  EXPECT_EQ(refusal(9, other), see + "there are 2 segments" + expected);
  Options options;
  options.reproducible = true;
  options.strategy = "ring";
  EXPECT_NE(refusal(9, pattern, options).find("strategy ring is not reproducible: if queries without row numbers"),
            std::string::npos)
      << refusal(9, pattern, options);
  EXPECT_EQ(refusal(7, pattern, options), "");
}

}  // namespace
}  // namespace annulus::test
