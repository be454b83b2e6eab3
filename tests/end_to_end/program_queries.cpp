// Queries whose number differs from that of the keys (input.query_offset): q has other rows than k and v.
//
// The whole sequence is computed, too. Queries at its rows [20, 39) must get the results of these rows, and keys must
// get their gradients in the whole sequence if only these rows have gradients of the output.
#include <algorithm>
#include <cmath>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

constexpr std::size_t S = 67, first = 20, count = 19;

/// Rows [from, from + many) of (1, S, ...).
std::vector<double> rows_of(const std::vector<double>& all, std::size_t from, std::size_t many) {
  const auto each = std::ptrdiff_t(all.size() / S);
  return {all.begin() + std::ptrdiff_t(from) * each, all.begin() + std::ptrdiff_t(from + many) * each};
}

class Queries : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    ASSERT_EQ(
        annulus(0,
                "generate --output all.h5 --sequence 67 --heads 4 --kv-heads 2 --head-dim 8 --dtype float64 --dout "
                "--dlse")
            .status,
        0);
    for (const auto& [name, extents] : extents_of_rows) {
      const bool of_queries = name != std::string("k") && name != std::string("v");
      std::vector<double> values = numbers(folder / "all.h5", name);
      std::vector<hsize_t> few = extents;
      if (of_queries) few[1] = count;
      put("few.h5", name, few, of_queries ? rows_of(values, first, count) : values);
      if (name[0] != 'd') continue;
      const auto each = std::ptrdiff_t(values.size() / S);  // only the queries' rows have gradients of the output
      std::fill(values.begin(), values.begin() + std::ptrdiff_t(first) * each, 0);
      std::fill(values.begin() + std::ptrdiff_t(first + count) * each, values.end(), 0);
      rewrite(folder / "all.h5", name, values);
    }
  }
  void put(const char* to, const char* name, const std::vector<hsize_t>& extents, const std::vector<double>& values,
           hid_t type = H5T_IEEE_F64LE) const {
    add_numbers(folder / to, name, extents, values, type);
  }
  void write_run(const std::string& name, const std::string& input, const std::string& attention,
                 const std::string& more = "") const {
    write(name, fmt::format("input: {{{}}}\nattention: {{{}}}\ncompute: {{backward: true}}\n"
                            "output: {{file: {}.h5, overwrite: true, statistics: [entropy, top]}}\n{}",
                            input, attention, name, more));
  }
  Outcome ran(int ranks, const std::string& words) const {
    Outcome outcome = annulus(ranks, words);
    EXPECT_EQ(outcome.status, 0) << words << "\n" << outcome.err;
    return outcome;
  }
  /// Checks that query i has the results of row `from` + i of the whole sequence, and each key the same gradients.
  void expect_rows_of_all(std::size_t from) const {
    for (const char* name : {"out", "lse", "dq", "entropy", "top_rows", "top_weights", "dk", "dv"}) {
      const std::vector<double> all = numbers(folder / "all.yaml.h5", name),
                                few = numbers(folder / "few.yaml.h5", name);
      const bool of_keys = name == std::string("dk") || name == std::string("dv");
      ASSERT_EQ(few.size(), of_keys ? all.size() : all.size() / S * count) << name;
      EXPECT_LT(largest_difference(few, of_keys ? all : rows_of(all, from, count)), 1e-12) << name;
    }
  }
  void expect_verified(const std::string& more, const std::string& scope) const {
    const Outcome verified = ran(2, "verify few.yaml --rows 100" + more);
    EXPECT_NE(verified.out.find(scope), std::string::npos) << verified.out;
    for (const char* name : {"out", "lse", "entropy", "top_rows", "top_weights", "dq", "dk", "dv"})
      EXPECT_EQ(word_on(verified.out, name), "ok") << verified.out;
  }

  const std::vector<std::pair<const char*, std::vector<hsize_t>>> extents_of_rows{
      {"q", {1, S, 4, 8}}, {"k", {1, S, 2, 8}}, {"v", {1, S, 2, 8}}, {"dout", {1, S, 4, 8}}, {"dlse", {1, S, 4}}};
};

TEST_F(Queries, GetWhatTheirRowsOfTheSequenceGetByEveryStrategy) {
  const std::string pattern = "segments: [16, {window: 9, first: 2}, all], dilations: [3, 1, 4]";
  write_run("all.yaml", "file: all.h5, dlse: /dlse", pattern);
  write_run("few.yaml", "file: few.h5, dlse: /dlse, query_offset: 20", pattern);
  for (const char* causal : {"true", "false"}) {
    const std::string mask = fmt::format(" --set attention.causal={}", causal);
    ran(1, "run all.yaml" + mask);
    for (const char* how :
         {"ring", "ring --set distribution.partition=zigzag", "rotation --set distribution.partition=block_cyclic",
          "allgather", "ulysses", "onesided", "ring_bidirectional", "pass_q", "ring --set compute.reproducible=true"}) {
      const std::string more = mask + " --set distribution.strategy=" + how;
      SCOPED_TRACE(more);
      const Outcome outcome = ran(3, "run few.yaml" + more);
      EXPECT_NE(outcome.out.find("1 x 67 rows (19 of queries), 4 heads of 8"), std::string::npos) << outcome.out;
      expect_rows_of_all(first);
      expect_verified(more, "19 of 19 queries");
    }
  }
  EXPECT_EQ(text_attribute(folder / "few.yaml.h5", "out", "axes"), "batch query head dim");
  EXPECT_EQ(text_attribute(folder / "few.yaml.h5", "dk", "axes"), "batch sequence kv_head dim");
}

TEST_F(Queries, AfterTheLastDocumentDoNotExist) {
  const hsize_t end = 30;
  put("few.h5", "documents", {3}, {0, 11, double(end)}, H5T_STD_I64LE);
  for (const char* name : {"q", "k", "v", "dout", "dlse"}) {
    std::vector<double> values = numbers(folder / "few.h5", name);
    const bool of_keys = name == std::string("k") || name == std::string("v");
    const std::size_t there = of_keys ? end : end - first, rows = of_keys ? S : count;
    std::fill(values.begin() + std::ptrdiff_t(values.size() / rows * there), values.end(), std::nan(""));
    rewrite(folder / "few.h5", name, values);
  }
  write_run("few.yaml", "file: few.h5, dlse: /dlse, query_offset: 20, documents: documents",
            "segments: [8, all], dilations: [2, 1]");
  for (const char* how : {"single", "ring", "pass_q", "ulysses"}) {
    const std::string more = fmt::format(" --set distribution.strategy={}", how);
    SCOPED_TRACE(more);
    ran(3, "run few.yaml" + more);
    expect_verified(more, "19 of 19 queries");
    const std::vector<double> out = numbers(folder / "few.yaml.h5", "out"),
                              lse = numbers(folder / "few.yaml.h5", "lse");
    for (std::size_t row = 0; row < count; ++row) {
      EXPECT_EQ(out[row * 4 * 8] == 0, row >= end - first) << row;
      EXPECT_EQ(std::isinf(lse[row * 4]), row >= end - first) << row;
    }
  }
}

TEST_F(Queries, AreTheLastRowsByDefaultAndAllRowsWithoutNumbers) {
  write_run("all.yaml", "file: all.h5, dlse: /dlse", "causal: true");
  write_run("few.yaml", "file: few.h5, dlse: /dlse", "causal: true");
  ran(2, "run few.yaml --set output.top_keys=67");
  expect_verified(" --set output.top_keys=67", "19 of 19 queries");
  const std::vector<double> rows = numbers(folder / "few.yaml.h5", "top_rows");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), double(S - 1)), 4) << "the last query alone sees the last row";
  ran(2,
      "run few.yaml --set attention.causal=false --set input.query_offset=none --set distribution.strategy=rotation");
  ran(1, "run all.yaml --set attention.causal=false");
  expect_rows_of_all(first);
  expect_verified(" --set attention.causal=false --set input.query_offset=none --set distribution.strategy=rotation",
                  "19 of 19 queries");
}

TEST_F(Queries, MayBeMoreThanTheKeys) {
  const std::string shape = "sequence: 23, queries: 80, heads: 4, kv_heads: 2, head_dim: 8, batch: 2, dtype: float64";
  write("few.yaml",
        fmt::format("input: {{generate: {{{}}}, query_offset: none}}\nattention: {{causal: false}}\n"
                    "compute: {{backward: true}}\noutput: {{file: few.yaml.h5, overwrite: true, statistics: "
                    "[entropy, received, top]}}\n",
                    shape));
  for (const char* how : {"ring", "allgather", "ulysses", "onesided", "single"}) {
    const std::string more = fmt::format(" --set distribution.strategy={}", how);
    SCOPED_TRACE(more);
    ran(3, "run few.yaml" + more);
    expect_verified(more, "80 of 80 queries");
  }
  // A file of the same seed gives the same numbers.
  ran(0,
      "generate --output more.h5 --sequence 23 --queries 80 --heads 4 --kv-heads 2 --head-dim 8 --batch 2 --dtype "
      "float64 --dout");
  const std::vector<double> out = numbers(folder / "few.yaml.h5", "out"), dq = numbers(folder / "few.yaml.h5", "dq");
  write_run("few.yaml", "file: more.h5, query_offset: none", "causal: false", "distribution: {strategy: single}\n");
  ran(3, "run few.yaml");
  EXPECT_EQ(numbers(folder / "few.yaml.h5", "out"), out);
  EXPECT_EQ(numbers(folder / "few.yaml.h5", "dq"), dq);
}

TEST_F(Queries, PassesAndTheOtherOrderOfAxesChangeNothing) {
  ran(0,
      "generate --output large.h5 --sequence 1501 --queries 900 --heads 4 --kv-heads 2 --head-dim 16 --batch 2 "
      "--dtype float64 --dout --dlse");
  write_run("few.yaml", "file: large.h5, dlse: /dlse", "segments: [64, all], dilations: [1, 4]",
            "distribution: {strategy: ring}\n");
  ran(2, "run few.yaml");
  const std::vector<const char*> names{"out", "lse", "dq", "dk", "dv", "top_rows"};
  std::vector<std::vector<double>> whole;
  for (const char* name : names) whole.push_back(numbers(folder / "few.yaml.h5", name));
  const Outcome passes = ran(2, "run few.yaml --set compute.memory_limit=3MiB");
  EXPECT_NE(passes.out.find("4, of 1 batch entry and 1 key/value head each"), std::string::npos) << passes.out;
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_LT(largest_difference(numbers(folder / "few.yaml.h5", names[i]), whole[i]), 1e-11) << names[i];
  for (const auto& [name, extents] : extents_of_rows) {  // in PyTorch's order (B, H, S, D)
    const std::vector<double> lies = numbers(folder / "few.h5", name);
    const std::size_t each = extents.size() == 3 ? 1 : 8, heads = extents[2], rows = lies.size() / heads / each;
    std::vector<double> turned;
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t s = 0; s < rows; ++s) {
        const auto from = lies.begin() + std::ptrdiff_t((s * heads + h) * each);
        turned.insert(turned.end(), from, from + std::ptrdiff_t(each));
      }
    }
    std::vector<hsize_t> shape{1, heads, rows};
    if (each > 1) shape.push_back(each);
    put("turned.h5", name, shape, turned);
  }
  write_run("few.yaml", "file: turned.h5, dlse: /dlse, axes: bhsd, query_offset: 20", "causal: true");
  ran(3, "run few.yaml");
  expect_verified("", "19 of 19 queries");
  EXPECT_EQ(text_attribute(folder / "few.yaml.h5", "out", "axes"), "batch head query dim");
}

// For few queries keys are read in parts (kernels::key_parts()), and the batch in blocks that depend on the threads.
TEST_F(Queries, FewReadManyKeysWithTheSameBitsForAnyNumberOfThreads) {
  write_run("few.yaml", "generate: {sequence: 17000, queries: 16, heads: 1, head_dim: 8, batch: 24}", "causal: false");
  std::vector<std::vector<double>> expected;
  for (const char* threads : {"1", "4"}) {
    setenv("OMP_NUM_THREADS", threads, 1);
    ran(1, "run few.yaml --set output.statistics=[]");
    setenv("OMP_NUM_THREADS", "1", 1);
    std::vector<std::vector<double>> results;
    for (const char* name : {"out", "lse", "dq", "dk", "dv"}) results.push_back(numbers(folder / "few.yaml.h5", name));
    if (expected.empty()) expected = results;
    EXPECT_TRUE(results == expected) << threads << " threads";
  }
}

TEST_F(Queries, FewReadManyKeysInTheMemoryThatIsPredicted) {
  write_run("few.yaml", "generate: {sequence: 33000, queries: 40, heads: 64, kv_heads: 1, head_dim: 32}",
            "causal: false");
  for (const char* reproducible : {"true", "false"}) {  // false: keys are read in parts
    ran(1, fmt::format("run few.yaml --set output.statistics=[] --set compute.reproducible={}", reproducible));
    for (const char* pass : {"/run/", "/run/backward/"}) {
      const double peak = numbers(folder / "few.yaml.h5", fmt::format("{}peak_bytes", pass)).at(0),
                   predicted = numbers(folder / "few.yaml.h5", fmt::format("{}predicted_peak_bytes", pass)).at(0);
      EXPECT_LE(peak, predicted) << pass << reproducible;
      EXPECT_GE(peak, 0.8 * predicted) << pass << reproducible;
    }
  }
}

TEST_F(Queries, AreSweptAndPlanned) {
  write(
      "bench.yaml",
      "input: {generate: {sequence: 200, heads: 4, head_dim: 8, queries: 10}, query_offset: none}\n"
      "attention: {causal: false}\ncompute: {backward: true}\n"
      "bench: {sweep: [{input.generate.queries: [1, 30, 300]}], repeats: 1, warmup: 0, verify_rows: 9, file: b.h5}\n");
  const Outcome outcome = ran(2, "bench bench.yaml");
  const std::vector<double> errors = numbers(folder / "b.h5", "/cases/error_out");
  ASSERT_EQ(errors.size(), 3u) << outcome.out;
  EXPECT_TRUE(std::all_of(errors.begin(), errors.end(), [](double error) { return error < 1e-5; })) << outcome.out;
  write_run("few.yaml", "file: few.h5, query_offset: 20", "causal: true");
  const Outcome plan = ran(1, "plan few.yaml --ranks 64");
  EXPECT_NE(plan.out.find("(19 of queries)"), std::string::npos) << plan.out;
  const Outcome dry = ran(1, "run --dry-run --ranks 3 few.yaml");
  EXPECT_NE(dry.out.find("query_offset: 20"), std::string::npos) << dry.out;
}

TEST_F(Queries, AWrongNumberIsNamedWhereItStandsInTheFile) {
  write_run("few.yaml", "file: few.h5, dlse: /dlse, query_offset: 20", "causal: true");
  ran(2, "run few.yaml");
  spoil(folder / "few.yaml.h5", "/out", (18 * 4 + 2) * 8 + 3, 1e3);
  const Outcome wrong = annulus(2, "verify few.yaml --rows 100");
  EXPECT_EQ(wrong.status, 3) << wrong.out;
  EXPECT_NE(wrong.out.find("WRONG, largest at [0, 18, 2, 3]"), std::string::npos) << wrong.out;
  EXPECT_EQ(annulus(2, "verify few.yaml --set input.query_offset=21").status, 1) << "other settings than the result's";
  spoil(folder / "few.h5", "/dout", (17 * 4 + 1) * 8 + 7, std::nan(""));
  const Outcome nan = annulus(3, "run few.yaml");
  EXPECT_EQ(nan.status, 1);
  EXPECT_NE(nan.err.find("dataset /dout holds nan at [0, 17, 1, 7]"), std::string::npos) << nan.err;
}

TEST_F(Queries, WhatCannotBeIsRefused) {
  put("few.h5", "lengths", {1}, {5});
  const auto refused = [&](const std::string& input, const std::string& more, int status, const std::string& says) {
    write("bad.yaml", fmt::format("input: {{{}}}\n{}output: {{file: bad.h5}}\n", input, more));
    const Outcome outcome = annulus(2, "run bad.yaml");
    EXPECT_EQ(outcome.status, status) << input << more << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refused("file: few.h5, query_offset: 49", "", 1,
          "bad.yaml:1:23: input.query_offset: 49, q has 19 rows and k 67: expected 0 to 48, auto or none");
  refused("file: few.h5, query_offset: none", "", 1, "queries without row numbers see every key, and causal is true");
  refused("file: few.h5, query_offset: -1", "", 2, "expected auto, none, or a row of k, 0 or more");
  refused("file: few.h5, query_offset: last", "", 2, "expected auto, none, or a row of k, 0 or more");
  refused("generate: {sequence: 8, queries: 9, heads: 1}", "", 2,
          "input.query_offset: auto, q has 9 rows and k 8: only queries without row numbers may be more than the keys");
  refused("file: few.h5, lengths: lengths", "", 1, "with input.lengths q and k must have the same rows");
  refused("file: few.h5", "distribution: {strategy: stream}\n", 2,
          "input.query_offset: strategy stream cannot do this: it needs q and k with the same rows");
  refused("file: few.h5, k: /q", "", 1, "dataset /v has shape (1, 67, 2, 8), expected (1, 19, kv_heads, 8) to fit q");
  refused("file: all.h5, query_offset: 3", "", 1, "input.query_offset: 3, q has 67 rows and k 67: expected 0 to 0");
  refused("file: few.h5, query_offset: 3", "layer: {heads: 2}\n", 2,
          "input.query_offset is not read with a section layer");
}

}  // namespace
}  // namespace annulus::test
