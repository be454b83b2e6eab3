// `annulus verify` of layer runs: what it compares with the definition, what it finds, and what it says it left out.
#include <functional>
#include <map>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {file: in.h5}
attention: {segments: [16, all], dilations: [1, 2]}
layer: {heads: 4, kv_heads: 2, bq: /bq, bk: /bk, bv: /bv, bo: /bo, rope: {base: 100}}
compute: {backward: true}
output: {file: result.h5, overwrite: true}
)";

class VerifyLayer : public ProgramTest {
 protected:
  void generate(const std::string& type) const {
    const Outcome made =
        annulus(1,
                "generate --output in.h5 --overwrite --layer 24 --sequence 53 --heads 4 --kv-heads 2 --head-dim 6 "
                "--batch 2 --biases --seed 3 --dtype " +
                    type);
    ASSERT_EQ(made.status, 0) << made.err;
    write("run.yaml", deck);
  }

  /// Runs run.yaml on a float64 layer with these options, and verifies six sampled rows: verify must find `ok` datasets
  /// right, and leave out `left_out` checks.
  void run_and_sample(const std::string& options, int ok, int left_out) const {
    const Outcome made = annulus(2, "generate --output in.h5 --dtype float64 " + options);
    ASSERT_EQ(made.status, 0) << made.err;
    ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
    const Outcome some = annulus(1, "verify --rows 6 run.yaml");
    EXPECT_EQ(some.status, 0) << some.out << some.err;
    EXPECT_EQ(count(some.out, " ok"), ok) << some.out;
    EXPECT_EQ(count(some.out, "not checked"), left_out) << some.out;
  }
  const std::string ending = "compute: {backward: true}\noutput: {file: result.h5, overwrite: true}\n";  // of run files
};

const std::vector<std::string> outputs{"y", "dx", "dwq", "dwk", "dwv", "dwo", "dbq", "dbk", "dbv", "dbo"};

TEST_F(VerifyLayer, HoldsEveryNumberAgainstTheDefinition) {
  for (const auto& [type, ranks, more] : std::vector<std::tuple<std::string, int, std::string>>{
           {"float64", 1, ""},
           {"float64", 3, "--set layer.sharding=tensor"},
           {"float64", 2, "--set layer.rope=none --set layer.bk=none --set attention.causal=false"},
           {"float64", 2,
            "--set input.documents=none --set attention.semantics=grouped --set attention.group_scale=true"},
           {"float64", 3, "--set attention.semantics=torchscale --set attention.causal=false"},
           {"float16", 3, "--set layer.sharding=fsdp"},
           {"bfloat16", 2, "--set layer.sharding=tensor"},
           {"float32", 3, "--set layer.sharding=fsdp --set distribution.strategy=rotation"}}) {
    SCOPED_TRACE(type + " " + more);
    generate(type);
    const Outcome ran = annulus(ranks, "run run.yaml " + more);
    ASSERT_EQ(ran.status, 0) << ran.err;
    double written = 0, count_of_numbers = 0;
    for (const double bytes : numbers(folder / "result.h5", "/run/write_bytes")) written += bytes;
    for (const std::string& name : outputs) {
      if (name != "dbk" || more.find("bk=none") == std::string::npos)
        count_of_numbers += double(numbers(folder / "result.h5", name).size());
    }
    EXPECT_EQ(written, count_of_numbers * (type == "float64" ? 8 : type == "float32" ? 4 : 2));
    for (const int checkers : {1, 3}) {
      const Outcome verified = annulus(checkers, "verify run.yaml " + more);
      EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
      EXPECT_EQ(count(verified.out, " ok"), more.find("bk=none") == std::string::npos ? 10 : 9) << verified.out;
      EXPECT_NE(verified.out.find("53 of 53 rows"), std::string::npos) << verified.out;
      EXPECT_EQ(verified.out.find("not checked"), std::string::npos) << verified.out;
    }
  }
}

/// Rows that do not exist: y and dx are 0 there, whatever x and dy hold, and no gradient of a weight is made of them.
TEST_F(VerifyLayer, RowsThatDoNotExist) {
  const auto spoil_rows = [&](const std::function<bool(std::size_t, std::size_t)>& exists) {
    for (const char* name : {"x", "dy"}) {
      std::vector<double> values = numbers(folder / "in.h5", name);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!exists(i / 24 / 53, i / 24 % 53)) values[i] = std::nan("");
      rewrite(folder / "in.h5", name, values);
    }
  };
  const auto expect_zeros = [&](const std::function<bool(std::size_t, std::size_t)>& exists) {
    for (const char* name : {"y", "dx"}) {
      const std::vector<double> found = numbers(folder / "result.h5", name);
      std::size_t zeros = 0, others = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (exists(i / 24 / 53, i / 24 % 53)) continue;
        ++others;
        zeros += found[i] == 0;
      }
      EXPECT_EQ(zeros, others) << name;
      EXPECT_GT(others, 0u);
    }
  };
  const std::vector<const char*> kinds{"none", "fsdp", "tensor"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (const bool lengths : {true, false}) {
      generate("float64");
      const auto exists = [=](std::size_t b, std::size_t row) {
        return lengths ? (b == 0 ? row >= 3 && row < 50 : row < 20) : row < 41;
      };
      add_numbers(folder / "in.h5", "rows", {2, 2}, {3, 50, 0, 20}, H5T_STD_I64LE);
      add_numbers(folder / "in.h5", "documents", {3}, {0, 11, 41}, H5T_STD_I64LE);
      spoil_rows(exists);
      const std::string more = fmt::format(" --set layer.sharding={} --set input.{}", kinds[i],
                                           lengths ? "lengths=rows" : "documents=documents");
      SCOPED_TRACE(more);
      const Outcome ran = annulus(int(1 + (i + 1) % 3), "run run.yaml" + more);
      ASSERT_EQ(ran.status, 0) << ran.err;
      EXPECT_NE(ran.out.find("rows exist"), std::string::npos) << ran.out;
      expect_zeros(exists);
      const Outcome verified = annulus(2, "verify run.yaml" + more);
      EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
      EXPECT_EQ(count(verified.out, " ok"), 10) << verified.out;
    }
  }
  rewrite(folder / "result.h5", "y", std::vector<double>(2 * 53 * 24, 1));
  const Outcome wrong = annulus(1, "verify run.yaml --set layer.sharding=tensor --set input.documents=documents");
  EXPECT_EQ(word_on(wrong.out, "y"), "WRONG") << wrong.out;
}

TEST_F(VerifyLayer, BiasInTheSequenceAndInThePlane) {
  generate("float64");
  std::vector<double> places;
  for (int row = 0; row < 53; ++row) places.insert(places.end(), {double(row % 7), double(row * row % 11)});
  add_numbers(folder / "in.h5", "places", {53, 2}, places, H5T_IEEE_F64LE);
  add_numbers(folder / "in.h5", "rows", {2}, {53, 20}, H5T_STD_I64LE);
  const std::vector<std::string> more{
      " --set attention.bias.alibi=auto --set layer.sharding=tensor",
      " --set attention.bias.alibi=[0.5,0.1,0,2] --set attention.bias.exempt=2 --set layer.sharding=fsdp"
      " --set input.coordinates=places --set attention.causal=false",
      " --set attention.bias.alibi=auto --set attention.softcap=2 --set input.coordinates=places"
      " --set input.lengths=rows"};
  std::vector<std::vector<double>> made;
  for (std::size_t i = 0; i < more.size(); ++i) {
    SCOPED_TRACE(more[i]);
    const Outcome ran = annulus(int(i) + 2, "run run.yaml" + more[i]);
    ASSERT_EQ(ran.status, 0) << ran.err;
    const Outcome verified = annulus(2, "verify run.yaml" + more[i]);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(count(verified.out, " ok"), 10) << verified.out;
    made.push_back(numbers(folder / "result.h5", "y"));
  }
  ASSERT_EQ(annulus(1, "run run.yaml").status, 0);
  for (const std::vector<double>& y : made) EXPECT_NE(y, numbers(folder / "result.h5", "y"));
}

TEST_F(VerifyLayer, FindsOneWrongNumberInAnyDataset) {
  generate("float32");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const auto path = folder / "result.h5";
  using Numbers = std::vector<double>;
  // Most of these mistakes are at the end of a dataset, because the last rows see most keys.
  const std::vector<std::pair<const char*, std::function<void(Numbers&, std::ptrdiff_t)>>> kinds{
      {"one number", [](Numbers& all, std::ptrdiff_t) { all.back() += 0.2; }},
      {"not a number", [](Numbers& all, std::ptrdiff_t) { all.front() = std::nan(""); }},
      {"a row of zeros", [](Numbers& all, std::ptrdiff_t row) { std::fill(all.end() - row, all.end(), 0); }},
      {"rows swapped",
       [](Numbers& all, std::ptrdiff_t row) { std::swap_ranges(all.end() - row, all.end(), all.end() - 2 * row); }}};
  for (const auto& [kind, plant] : kinds) {
    // Half of the datasets are spoilt at a time: the others must still be found right.
    for (const bool odd : {false, true}) {
      SCOPED_TRACE(kind);
      std::map<std::string, Numbers> right;
      std::vector<std::string> left;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::string& name = outputs[i];
        if ((i % 2 == 1) != odd) {
          left.push_back(name);
          continue;
        }
        Numbers spoilt = right[name] = numbers(path, name);
        const bool narrow = name == "dwk" || name == "dwv";
        plant(spoilt, name.substr(0, 2) == "db" ? 1 : narrow ? 12 : 24);
        rewrite(path, name, spoilt);
      }
      const Outcome verified = annulus(2, "verify run.yaml");
      EXPECT_EQ(verified.status, 3) << verified.out << verified.err;
      for (const auto& [name, numbers] : right) EXPECT_EQ(word_on(verified.out, name), "WRONG") << verified.out;
      for (const std::string& name : left) EXPECT_EQ(word_on(verified.out, name), "ok") << verified.out;
      for (const auto& [name, numbers] : right) rewrite(path, name, numbers);
    }
  }
  EXPECT_EQ(annulus(2, "verify run.yaml").status, 0) << "the test spoils more than it means to";
}

/// bk adds the same number to all scores of a query, so the softmax does not change. Without rope the true dbk is 0,
/// and a result has only rounding errors. The same is true of all gradients of q and k if there is one row only.
TEST_F(VerifyLayer, GradientsWhoseTermsCancelAreRight) {
  write("run.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4, kv_heads: 2, bq: /bq, bk: /bk, bv: /bv, bo: /bo}\n" + ending);
  for (const auto& [type, rows] : {std::pair("float32", 53), {"float16", 53}, {"float16", 3}, {"float16", 1}}) {
    SCOPED_TRACE(fmt::format("{}, {} rows", type, rows));
    const Outcome made =
        annulus(1, fmt::format("generate --output in.h5 --overwrite --layer 24 --sequence {} --heads 4 --kv-heads 2 "
                               "--head-dim 6 --batch 2 --biases --seed 2 --dtype {}",
                               rows, type));
    ASSERT_EQ(made.status, 0) << made.err;
    ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
    const Outcome verified = annulus(2, "verify run.yaml");
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(count(verified.out, " ok"), 10) << verified.out;
    spoil(folder / "result.h5", "dbk", 3, 4);
    EXPECT_EQ(word_on(annulus(2, "verify run.yaml").out, "dbk"), "WRONG");
  }
}

TEST_F(VerifyLayer, ForwardRunsAreSampled) {
  generate("float64");
  ASSERT_EQ(annulus(3, "run run.yaml --set compute.backward=false").status, 0);
  const Outcome verified = annulus(2, "verify run.yaml --rows 7 --set compute.backward=false");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  EXPECT_NE(verified.out.find("7 of 53 rows"), std::string::npos) << verified.out;
  EXPECT_EQ(count(verified.out, " ok"), 1) << verified.out;
  const Outcome other = annulus(2, "verify run.yaml");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("compute.backward: false -> true"), std::string::npos) << other.err;
}

TEST_F(VerifyLayer, SaysWhatIsTooMuchWork) {
  write("run.yaml", "input: {file: in.h5}\nlayer: {heads: 2, kv_heads: 1, rope: {base: 10}}\n" + ending);
  // Every row sees all rows before it: 81 million triples. Rows of dx are seen by thousands of queries.
  ASSERT_NO_FATAL_FAILURE(run_and_sample("--layer 4 --sequence 9000 --heads 2 --kv-heads 1 --head-dim 2", 1, 2));
  spoil(folder / "result.h5", "y", numbers(folder / "result.h5", "y").size() - 1, 1e-9);
  EXPECT_EQ(annulus(1, "verify --rows 6 run.yaml").status, 3) << "the last row is always looked at";
}

TEST_F(VerifyLayer, LooksAtSampledRowsOfDxWhereFewQueriesSeeThem) {
  write("run.yaml",
        "input: {file: in.h5}\nattention: {segments: [8], dilations: [1]}\nlayer: {heads: 16, kv_heads: 1, rope: "
        "{base: 10}}\n" +
            ending);
  // 1200 rows times 4352 columns times 1024 numbers, more than once: too many products. But a row sees few keys.
  ASSERT_NO_FATAL_FAILURE(run_and_sample("--layer 1024 --sequence 1200 --heads 16 --kv-heads 1 --head-dim 128", 2, 1));
  spoil(folder / "result.h5", "dx", 0, 1e-9);
  const Outcome spoilt = annulus(2, "verify --rows 6 run.yaml");
  EXPECT_EQ(spoilt.status, 3) << "the first row is always looked at";
  EXPECT_EQ(count(spoilt.out, "not checked"), 1) << "two ranks share the products of the gradients only";
}

TEST_F(VerifyLayer, WantsAResultOfThisRunFile) {
  generate("float32");
  const Outcome none = annulus(1, "verify run.yaml");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("there is no result yet"), std::string::npos) << none.err;
  ASSERT_EQ(annulus(1, "run run.yaml").status, 0);
  const Outcome rope = annulus(1, "verify run.yaml --set layer.rope.base=7");
  EXPECT_EQ(rope.status, 1);
  EXPECT_NE(rope.err.find("rope"), std::string::npos) << rope.err;
  replace_by_text(folder / "result.h5", "/run/settings", "layer: {hats: 4}\n");
  const Outcome old = annulus(2, "verify run.yaml");
  EXPECT_EQ(old.status, 1) << "the file's fault, not the command line's";
  EXPECT_NE(old.err.find("result.h5: is no result of `annulus run`: "), std::string::npos) << old.err;
  EXPECT_NE(old.err.find("result.h5:/run/settings:1:9: unknown key 'hats'"), std::string::npos) << old.err;
  const std::string training = "run.yaml --set \"train={steps: 1, rate: 1, checkpoint: check.h5}\"";
  ASSERT_EQ(annulus(2, "train " + training).status, 0);
  const Outcome trained = annulus(2, "verify " + training);
  EXPECT_EQ(trained.status, 1);
  EXPECT_NE(trained.err.find("result.h5: is a result of `annulus train`"), std::string::npos) << trained.err;
}

}  // namespace
}  // namespace annulus::test
