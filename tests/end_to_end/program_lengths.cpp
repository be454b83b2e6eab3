// Padded batches (input.lengths) and rows after the last document through the program. Numbers in rows that do not
// exist are ignored and take no time; the results of such rows are out 0, lse -inf and gradients 0.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <regex>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

constexpr std::size_t B = 3, S = 67, H = 4, D = 8;

class Lengths : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome made = annulus(0,
                                 "generate --output in.h5 --sequence 67 --heads 4 --kv-heads 2 --head-dim 8 --batch 3 "
                                 "--dtype float64 --dout --dlse");
    ASSERT_EQ(made.status, 0) << made.err;
    put("lengths", {3}, {67, 20, 0});
    put("ranges", {3, 2}, {5, 41, 0, 67, 60, 67});
    put("documents", {3}, {0, 30, 50});
    put("long", {3}, {0, 30, 68});
    write_run("lengths: lengths");
  }

  void write_run(const std::string& input, const std::string& more = "") const {
    write("run.yaml", fmt::format("input: {{file: in.h5, dlse: /dlse, {}}}\n"
                                  "attention: {{segments: [16, 32, all], dilations: [1, 3, 4]}}\n"
                                  "compute: {{backward: true}}\n"
                                  "output: {{file: out.h5, overwrite: true, statistics: [entropy, received, top]}}\n{}",
                                  input, more));
  }
  void put(const char* name, const std::vector<hsize_t>& extents, const std::vector<double>& values,
           hid_t type = H5T_STD_I64LE, const char* to = "in.h5") const {
    add_numbers(folder / to, name, extents, values, type);
  }
  /// In all input tensors, writes NaN into the rows that do not exist.
  template <class Exists>
  void spoil_others(const Exists& exists) const {
    for (const char* name : {"q", "k", "v", "dout", "dlse"}) {
      std::vector<double> values = numbers(folder / "in.h5", name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / (values.size() / (B * S));
        if (!exists(row / S, row % S)) values[i] = std::nan("");
      }
      rewrite(folder / "in.h5", name, values);
    }
  }
  /// Checks that the results of rows that do not exist are those of rows that see nothing.
  template <class Exists>
  void expect_nothing(const Exists& exists) const {
    for (const auto& [name, nothing] : std::vector<std::pair<const char*, double>>{{"out", 0},
                                                                                   {"lse", -INFINITY},
                                                                                   {"dq", 0},
                                                                                   {"dk", 0},
                                                                                   {"dv", 0},
                                                                                   {"entropy", 0},
                                                                                   {"received", 0},
                                                                                   {"top_rows", -1}}) {
      const std::vector<double> found = numbers(folder / "out.h5", name);
      std::size_t other = 0, equal = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / (found.size() / (B * S));
        if (exists(row / S, row % S)) continue;
        ++other;
        equal += found[i] == nothing;
      }
      EXPECT_EQ(equal, other) << name;
    }
  }
  /// Bytes that all ranks together have read.
  double read_bytes() const {
    const std::vector<double> bytes = numbers(folder / "out.h5", "/run/read_bytes");
    return std::accumulate(bytes.begin(), bytes.end(), 0.0);
  }
  void expect_verified(const std::string& more, const std::string& every) const {
    const Outcome verified = annulus(2, "verify run.yaml --rows 201" + more);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_NE(verified.out.find(every), std::string::npos) << verified.out;
    for (const char* name : {"out", "lse", "entropy", "received", "top_rows", "top_weights", "dq", "dk", "dv"})
      EXPECT_EQ(word_on(verified.out, name), "ok") << verified.out;
  }
};

bool of_lengths(std::size_t b, std::size_t row) { return row < (b == 0 ? 67u : b == 1 ? 20u : 0u); }
bool of_ranges(std::size_t b, std::size_t row) { return b == 0 ? row >= 5 && row < 41 : b == 1 || row >= 60; }

TEST_F(Lengths, RunAndVerifyEveryTensorByEveryStrategy) {
  spoil_others(of_lengths);
  const std::vector<std::string> kinds{"ring", "allgather", "ulysses", "onesided"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (const char* partition : {"contiguous", "zigzag", "block_cyclic", "documents"}) {
      if (i > 0 && partition != std::string("contiguous")) continue;
      const std::string more =
          fmt::format(" --set distribution.strategy={} --set distribution.partition={}", kinds[i], partition);
      SCOPED_TRACE(more);
      const Outcome ran = annulus(int(2 + (i + 1) % 2), "run run.yaml" + more);
      ASSERT_EQ(ran.status, 0) << ran.err;
      expect_nothing(of_lengths);
      expect_verified(more, "201 of 201 rows");
    }
  }
}

TEST_F(Lengths, RangesReproducibleWithSinksAndOnOneRank) {
  spoil_others(of_ranges);
  write_run("lengths: ranges");
  for (const auto& [ranks, more] : {std::pair(1, std::string()),
                                    {3, " --set compute.reproducible=true --set distribution.strategy=ring"},
                                    {4, " --set attention.causal=false --set distribution.strategy=rotation"}}) {
    SCOPED_TRACE(more);
    const Outcome ran = annulus(ranks, "run run.yaml" + more);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("3 documents, 110 of 201 rows exist"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("3 x 67 rows, 4 heads of 8"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find("see no key"), std::string::npos) << "rows that do not exist are not counted: " << ran.out;
    EXPECT_EQ(read_bytes(), double(110 * (H * D + 2 * (H / 2) * D + H * D + H)) * 8) << "q, k and v, dout, dlse";
    expect_nothing(of_ranges);
    expect_verified(more, "201 of 201 rows");
  }
  const std::vector<double> rows = numbers(folder / "out.h5", "top_rows");
  EXPECT_EQ(*std::max_element(rows.end() - std::ptrdiff_t(7 * H * 8), rows.end()), 66) << "row of its batch entry";
}

/// Options for more than 16 pieces of a comb on a rank, which are counted in another way; "" if `strategy` has none.
std::string blocks_of_one(const std::string& strategy) {
  const bool takes_any = strategy == "ring" || strategy == "rotation" || strategy == "onesided";
  return takes_any ? " --set distribution.partition=block_cyclic --set distribution.block_size=1" : "";
}

/// With query_offset: none every query exists, and sees the keys of its entry. Queries may be fewer or more than keys.
TEST_F(Lengths, OfKeysOnly) {
  const std::vector<std::string> kinds{"ring",    "rotation",           "allgather", "pass_q",
                                       "ulysses", "onesided",           "hybrid",    "allgather_overlap",
                                       "single",  "ring_bidirectional", "auto"};
  std::size_t turn = 0;
  for (const std::size_t queries : {19, 67, 90}) {
    const Outcome made =
        annulus(0, fmt::format("generate --output in.h5 --overwrite --sequence 67 --queries {} --heads 4 "
                               "--kv-heads 2 --head-dim 8 --batch 3 --dtype float64 --dout --dlse",
                               queries));
    ASSERT_EQ(made.status, 0) << made.err;
    put("ranges", {3, 2}, {5, 41, 0, 67, 67, 67});
    const auto exists = [](std::size_t b, std::size_t row) { return b == 1 || (b == 0 && row >= 5 && row < 41); };
    for (const char* name : {"k", "v"}) {
      std::vector<double> values = numbers(folder / "in.h5", name);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!exists(i / 16 / S, i / 16 % S)) values[i] = std::nan("");
      rewrite(folder / "in.h5", name, values);
    }
    write_run("lengths: ranges, query_offset: none");
    for (const std::string& kind : kinds) {
      const std::string more =
          " --set attention.segments=[all] --set attention.dilations=[1] --set "
          "attention.causal=false --set distribution.strategy=" +
          kind + (queries == 67 ? blocks_of_one(kind) : "");
      SCOPED_TRACE(fmt::format("{} queries, {}", queries, more));
      const Outcome ran = annulus(int(queries == 67 ? 2 + turn % 3 : 1 + turn % 4), "run run.yaml" + more);
      ++turn;
      ASSERT_EQ(ran.status, 0) << ran.err;
      EXPECT_NE(ran.out.find("103 of 201 keys exist"), std::string::npos) << ran.out;
      EXPECT_EQ(read_bytes(), double(103 * 2 * (H / 2) * D + 3 * queries * (2 * H * D + H)) * 8);
      for (const char* name : {"dk", "dv", "received"}) {
        const std::vector<double> found = numbers(folder / "out.h5", name);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const std::size_t row = i / (found.size() / (B * S));
          if (exists(row / S, row % S)) continue;
          ASSERT_EQ(found[i], 0) << name << " " << i;
        }
      }
      const std::vector<double> out = numbers(folder / "out.h5", "out"), lse = numbers(folder / "out.h5", "lse");
      EXPECT_TRUE(std::all_of(out.end() - std::ptrdiff_t(out.size() / 3), out.end(), [](double x) { return x == 0; }));
      EXPECT_EQ(std::count(lse.begin(), lse.end(), -INFINITY), std::ptrdiff_t(lse.size() / 3));
      expect_verified(more, fmt::format("{} of {} ", std::min<std::size_t>(201, 3 * queries), 3 * queries));
    }
  }
  spoil(folder / "out.h5", "/out", ((1 * 90 + 33) * H + 2) * D + 3, 1);
  spoil(folder / "out.h5", "/dk", ((1 * S + 33) * 2 + 1) * D + 3, 1);
  const std::string dense =
      " --set attention.segments=[all] --set attention.dilations=[1] --set attention.causal=false";
  const Outcome wrong = annulus(2, "verify run.yaml --rows 300" + dense + " --set distribution.strategy=auto");
  EXPECT_EQ(wrong.status, 3) << wrong.out;
  EXPECT_NE(wrong.out.find("WRONG, largest at [1, 33, 2, 3]"), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find("WRONG, largest at [1, 33, 1, 3]"), std::string::npos) << wrong.out;
  const Outcome stream =
      annulus(1, "run run.yaml --set distribution.strategy=stream --set output.statistics=[]" + dense);
  EXPECT_EQ(stream.status, 2);
  EXPECT_NE(stream.err.find("input.query_offset: strategy stream cannot do this"), std::string::npos) << stream.err;
  const Outcome causal = annulus(1, "run run.yaml");
  EXPECT_EQ(causal.status, 1);
  EXPECT_NE(causal.err.find("input.query_offset: none: queries without row numbers see every key"), std::string::npos)
      << causal.err;
}

TEST_F(Lengths, TheOrderOfAxesStreamAndPassesChangeNothing) {
  spoil_others(of_ranges);
  for (const char* name : {"q", "k", "v", "dout", "dlse"}) {
    const std::vector<double> lies = numbers(folder / "in.h5", name);
    const std::size_t each = name == std::string("dlse") ? 1 : D, heads = lies.size() / (B * S * each);
    std::vector<double> turned;
    for (std::size_t b = 0; b < B; ++b) {
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t s = 0; s < S; ++s) {
          const auto from = lies.begin() + std::ptrdiff_t(((b * S + s) * heads + h) * each);
          turned.insert(turned.end(), from, from + std::ptrdiff_t(each));
        }
      }
    }
    std::vector<hsize_t> extents{B, heads, S};
    if (each > 1) extents.push_back(each);
    put(name, extents, turned, H5T_IEEE_F64LE, "turned.h5");
  }
  put("ranges", {3, 2}, {5, 41, 0, 67, 60, 67}, H5T_STD_I64LE, "turned.h5");
  const std::string plain = "output: {file: out.h5, overwrite: true}\n";
  const auto write_plain = [&](const std::string& file, const std::string& axes) {
    write("run.yaml",
          fmt::format("input: {{file: {}, dlse: /dlse, lengths: ranges{}}}\nattention: {{segments: [16, all], "
                      "dilations: [1, 4]}}\ncompute: {{backward: true}}\n{}",
                      file, axes, plain));
  };
  write_plain("in.h5", "");
  ASSERT_EQ(annulus(1, "run run.yaml").status, 0);
  const std::vector<const char*> names{"out", "lse", "dq", "dk", "dv"};
  std::vector<std::vector<double>> whole;
  for (const char* name : names) whole.push_back(numbers(folder / "out.h5", name));
  for (const char* more : {" --set distribution.strategy=stream --set distribution.block_size=16",
                           " --set distribution.strategy=stream --set distribution.block_size=50"}) {
    SCOPED_TRACE(more);
    const Outcome ran = annulus(2, std::string("run run.yaml") + more);
    ASSERT_EQ(ran.status, 0) << ran.err;
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_LT(largest_difference(numbers(folder / "out.h5", names[i]), whole[i]), 1e-11) << names[i];
    EXPECT_EQ(annulus(1, std::string("verify run.yaml --rows 201") + more).status, 0);
  }
  write_plain("turned.h5", ", axes: bhsd");
  const Outcome ran = annulus(3, "run run.yaml --set distribution.strategy=rotation");
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<double> turned;
  for (std::size_t b = 0; b < B; ++b) {
    for (std::size_t h = 0; h < H; ++h) {
      for (std::size_t s = 0; s < S; ++s) turned.push_back(whole[1][(b * S + s) * H + h]);
    }
  }
  EXPECT_LT(largest_difference(numbers(folder / "out.h5", "lse"), turned), 1e-12);
  const Outcome verified = annulus(2, "verify run.yaml --rows 201 --set distribution.strategy=rotation");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Lengths, PassesOverHeadsGiveTheSameNumbers) {
  const Outcome made = annulus(0,
                               "generate --output large.h5 --sequence 1501 --heads 4 --kv-heads 2 --head-dim 16 "
                               "--batch 3 --dtype float64 --dout --dlse");
  ASSERT_EQ(made.status, 0) << made.err;
  put("lengths", {3}, {1501, 700, 0}, H5T_STD_I64LE, "large.h5");
  spoil(folder / "large.h5", "/k", (1 * 1501 + 700) * 2 * 16, std::nan(""));
  spoil(folder / "large.h5", "/dout", 2 * 1501 * 4 * 16, std::nan(""));
  write("run.yaml",
        "input: {file: large.h5, dlse: /dlse, lengths: lengths}\nattention: {segments: [16, all], dilations: [1, 4]}\n"
        "compute: {backward: true}\ndistribution: {strategy: ring}\noutput: {file: out.h5, overwrite: true}\n");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const std::vector<const char*> names{"out", "lse", "dq", "dk", "dv"};
  std::vector<std::vector<double>> whole;
  for (const char* name : names) whole.push_back(numbers(folder / "out.h5", name));
  const Outcome ran = annulus(2, "run run.yaml --set compute.memory_limit=8MiB");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("2, of 1 batch entry and 1 key/value head each"), std::string::npos) << ran.out;
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_LT(largest_difference(numbers(folder / "out.h5", names[i]), whole[i]), 1e-11) << names[i];
}

TEST_F(Lengths, RowsAfterTheLastDocumentDoNotExist) {
  const auto exists = [](std::size_t, std::size_t row) { return row < 50; };
  spoil_others(exists);
  write_run("documents: documents");
  const Outcome ran = annulus(3, "run run.yaml --set distribution.strategy=ring");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("2 documents, 50 of 67 rows exist"), std::string::npos) << ran.out;
  expect_nothing(exists);
  expect_verified(" --set distribution.strategy=ring", "67 of 67 rows");
}

TEST_F(Lengths, AWrongNumberIsNamedWhereItStandsInTheFile) {
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  spoil(folder / "out.h5", "/out", ((1 * S + 60) * H + 2) * D + 3, 1);  // this row does not exist: should be 0
  const Outcome wrong = annulus(2, "verify run.yaml --rows 201");
  EXPECT_EQ(wrong.status, 3) << wrong.out;
  EXPECT_NE(wrong.out.find("WRONG, largest at [1, 60, 2, 3]"), std::string::npos) << wrong.out;
  spoil(folder / "in.h5", "/k", ((1 * S + 19) * 2 + 1) * D + 7, std::nan(""));
  const Outcome ran = annulus(2, "run run.yaml");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("dataset /k holds nan at [1, 19, 1, 7]"), std::string::npos) << ran.err;
}

TEST_F(Lengths, APlanCountsRowsThatExist) {
  write("run.yaml",
        "input: {file: in.h5, lengths: ranges}\nattention: {causal: false}\ndistribution: {strategy: ring}\n"
        "output: {file: out.h5, overwrite: true}\n");
  ASSERT_EQ(annulus(3, "run run.yaml").status, 0);
  double kept = 0;
  for (const double one : numbers(folder / "out.h5", "/run/kept")) kept += one;
  EXPECT_EQ(kept, H * (36 * 36 + 67 * 67 + 7 * 7)) << "not 3 x 67 x 67";
  const Outcome dry = annulus(1, "run --dry-run --ranks 3 run.yaml");
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("3 documents, 110 of 201 rows exist"), std::string::npos) << dry.out;
}

TEST_F(Lengths, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::string& text, int status, const std::string& says) {
    write("bad.yaml", text);
    const Outcome ran = annulus(1, "run bad.yaml");
    EXPECT_EQ(ran.status, status) << text;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  };
  const std::string out = "output: {file: bad.h5}\n";
  refused("input: {file: in.h5, lengths: lengths, documents: documents}\n" + out, 2,
          "input.lengths and input.documents (bad.yaml:1:");
  refused("input: {generate: {sequence: 8, heads: 1}, lengths: lengths}\n" + out, 2,
          "input.lengths needs input.file: it names a dataset in that file");
  refused("input: {file: in.h5, lengths: long}\n" + out, 1, "dataset long: batch entry 2 has rows [0, 68)");
  refused("input: {file: in.h5, lengths: q}\n" + out, 1,
          "dataset q is float64 with 4 axes, expected int64 with 1 or 2");
}

TEST_F(Lengths, LocalBelowCountsTheRowsOfOneEntry) {
  for (const auto& [below, taken] :
       {std::pair("68", "single: 67 rows are fewer than distribution.local_below, 68"), std::pair("67", "predicted")}) {
    const Outcome dry =
        annulus(0, fmt::format("run --dry-run --ranks 2 run.yaml --set distribution.local_below={}", below));
    ASSERT_EQ(dry.status, 0) << dry.err;
    EXPECT_NE(dry.out.find(taken), std::string::npos) << dry.out;
  }
}

}  // namespace
}  // namespace annulus::test
