// What a result is for other programs: types of its tensors, what two runs have in common, and the report as a row of a
// table.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {file: in.h5}
attention: {segments: [16, all], dilations: [1, 3]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: result.h5, overwrite: true}
)";

class Output : public ProgramTest {
 protected:
  void generate(const std::string& options) const {
    ASSERT_EQ(annulus(0,
                      "generate --output in.h5 --overwrite --sequence 77 --heads 4 --kv-heads 2 --head-dim 20 "
                      "--batch 2 --dout " +
                          options)
                  .status,
              0);
  }
  /// "H5T_IEEE_F32LE", as h5dump calls the type of a dataset.
  std::string type_of(const std::string& dataset) const {
    const std::string dump = shell("h5dump -H -d " + dataset + " result.h5").out;
    const auto at = dump.find("DATATYPE") + 10;
    return dump.substr(at, dump.find('\n', at) - at);
  }
  static std::string differences(const std::string& a, const std::string& b) {
    return "h5diff --exclude-path=/run --exclude-path=/provenance " + a + " " + b;
  }
};

// docs/changelog.md: a key that an older result lacks has its default; a key that this version lacks is refused.
TEST_F(Output, OfAnOlderVersionVerifiesAndOfANewerOneIsRefused) {
  generate("");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const std::string known =
      "input: {file: in.h5}\nattention: {segments: [16, all], dilations: [1, 3]}\ncompute: {backward: true}\n"
      "distribution: {strategy: ring}\noutput: {file: result.h5}\n";
  replace_by_text(folder / "result.h5", "/run/settings", known.c_str());
  const Outcome older = annulus(1, "verify run.yaml");
  EXPECT_EQ(older.status, 0) << older.err;
  replace_by_text(folder / "result.h5", "/run/settings", (known + "quantization: {bits: 4}\n").c_str());
  const Outcome newer = annulus(1, "verify run.yaml");
  EXPECT_EQ(newer.status, 1);
  EXPECT_NE(newer.err.find("is no result of `annulus run`: "), std::string::npos) << newer.err;
  EXPECT_NE(newer.err.find("unknown key 'quantization'"), std::string::npos) << newer.err;
}

TEST_F(Output, TypeIsThatOfTheTensorsAndNotOfLse) {
  generate("--dtype float16");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  std::map<std::string, std::vector<double>> before;
  for (const char* name : {"out", "dq", "dk", "dv", "lse"}) before[name] = numbers(folder / "result.h5", name);
  for (const auto& [type, stored] : {std::pair("float32", "H5T_IEEE_F32LE"), {"float64", "H5T_IEEE_F64LE"}}) {
    const std::string set = std::string(" --set output.type=") + type;
    const Outcome ran = annulus(3, "run run.yaml" + set);
    ASSERT_EQ(ran.status, 0) << ran.err;
    for (const auto& [name, numbers_before] : before) {
      EXPECT_EQ(type_of(name), name == "lse" ? "H5T_IEEE_F32LE" : stored) << name << " of " << type;
      EXPECT_LT(largest_difference(numbers(folder / "result.h5", name), numbers_before), 3e-3)
          << name << " of " << type;  // 3 ranks round differently
    }
    const Outcome checked = annulus(2, "verify run.yaml" + set);
    EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
    EXPECT_EQ(count(checked.out, "tolerance 0.003 "), 5) << checked.out;  // that of float16 inputs
  }
  const Outcome other = annulus(0, "verify run.yaml");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("was made with other settings than run.yaml has now: output.type: float64 -> auto"),
            std::string::npos)
      << other.err;
  spoil(folder / "result.h5", "dk", 3000, 0.5);
  EXPECT_EQ(annulus(0, "verify run.yaml --rows 77 --set output.type=float64").status, 3);
}

TEST_F(Output, FewerBitsThanComputedAreTheirOwnTolerance) {
  generate("--dtype float64");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml --set output.type=float32").status, 0);
  EXPECT_EQ(type_of("dq"), "H5T_IEEE_F32LE");
  EXPECT_EQ(type_of("lse"), "H5T_IEEE_F64LE");
  const Outcome checked = annulus(0, "verify run.yaml --set output.type=float32");
  EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
  EXPECT_EQ(count(checked.out, "tolerance 1e-05 "), 1) << checked.out;  // out
  EXPECT_EQ(count(checked.out, "tolerance 1e-12 "), 1) << checked.out;  // lse
  EXPECT_EQ(count(checked.out, "tolerance 3e-05 "), 3) << checked.out;
}

TEST_F(Output, ALayersTensorsToo) {
  ASSERT_EQ(
      annulus(0, "generate --output in.h5 --sequence 30 --heads 4 --head-dim 8 --layer 24 --dtype bfloat16").status, 0);
  write("run.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4, sharding: fsdp}\ncompute: {backward: true}\n"
        "output: {file: result.h5, type: float32}\n");
  const Outcome ran = annulus(3, "run run.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* name : {"y", "dx", "dwq", "dwo"}) EXPECT_EQ(type_of(name), "H5T_IEEE_F32LE") << name;
  const Outcome checked = annulus(2, "verify run.yaml");
  EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
  EXPECT_EQ(count(checked.out, "tolerance 0.02 "), 6) << checked.out;
  // Checkpoints keep the input's type, because training goes on from them; the result of training need not.
  write("train.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4, sharding: tensor}\n"
        "train: {steps: 3, rate: 0.1, checkpoint: c.h5}\noutput: {file: result.h5, overwrite: true, type: float64}\n");
  const Outcome trained = annulus(2, "train train.yaml");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(type_of("wq"), "H5T_IEEE_F64LE");
  EXPECT_EQ(numbers(folder / "result.h5", "wk"), numbers(folder / "c.h5", "wk"));
}

TEST_F(Output, TypesThatItCannotHave) {
  generate("");
  write("run.yaml", deck);
  for (const char* type : {"float16", "bfloat16", "float"}) {
    const Outcome outcome = annulus(0, std::string("run run.yaml --set output.type=") + type);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("expected one of auto, float32, float64"), std::string::npos) << outcome.err;
  }
}

TEST_F(Output, TwoRunsOfOneJobDoNotDiffer) {
  generate("--dtype float16");
  write("run.yaml", deck);
  const std::string run = "run run.yaml --set compute.reproducible=true --set output.file=";
  ASSERT_EQ(annulus(1, run + "a.h5").status, 0);
  ASSERT_EQ(annulus(3, run + "b.h5 --set output.trace=trace.json").status, 0);
  const Outcome same = shell(differences("a.h5", "b.h5"));
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_EQ(same.out, "");
  spoil(folder / "b.h5", "dv", 5, 0.25);
  const Outcome other = shell(differences("a.h5", "b.h5"));
  EXPECT_EQ(other.status, 1) << other.err;
  EXPECT_NE(other.out.find("dataset: </dv> and </dv>\n1 differences found"), std::string::npos) << other.out;
}

/// The first 50 of 77 rows of a batch entry, in another file, computed with other numbers of ranks and threads.
TEST_F(Output, OfAPartHasTheBitsOfTheWhole) {
  generate("");
  write("run.yaml", deck);
  const auto part_of = [](const std::vector<double>& whole) {  // (2, 77, ...) as (1, 50, ...)
    const auto row = long(whole.size()) / (2 * 77);
    return std::vector<double>(whole.begin() + 77 * row, whole.begin() + (77 + 50) * row);
  };
  const hid_t file = H5Fcreate((folder / "part.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  for (const char* name : {"q", "k", "v", "dout"}) {
    const std::vector<double> part = part_of(numbers(folder / "in.h5", name));
    const hsize_t extents[] = {1, 50, part.size() / (50 * 20), 20};
    const hid_t space = H5Screate_simple(4, extents, nullptr);
    const hid_t data = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, part.data()), 0) << name;
    H5Dclose(data);
    H5Sclose(space);
  }
  H5Fclose(file);
  const std::string run = "run run.yaml --set compute.reproducible=true --set output.file=";
  ASSERT_EQ(annulus(3, run + "whole.h5").status, 0);
  const Outcome part = shell("env OMP_NUM_THREADS=3 " ANNULUS_PROGRAM " " + run + "own.h5 --set input.file=part.h5");
  ASSERT_EQ(part.status, 0) << part.err;
  for (const char* name : {"out", "lse", "dq"}) {
    EXPECT_EQ(numbers(folder / "own.h5", name), part_of(numbers(folder / "whole.h5", name))) << name;
  }
  EXPECT_NE(numbers(folder / "own.h5", "dv"), part_of(numbers(folder / "whole.h5", "dv")))
      << "in the whole, later rows see these keys";
}

TEST_F(Output, IsMadeAlsoIfTheReaderOfTheTextGoesAway) {
  write("pipe.yaml",
        "input: {generate: {sequence: 4096, heads: 8}}\nattention: {causal: false}\noutput: {file: pipe.h5}\n");
  const Outcome ran = shell(std::string(ANNULUS_PROGRAM) + " run pipe.yaml 2>&1 | head -n 1");
  EXPECT_EQ(count(ran.out, "\n"), 1) << ran.out;
  EXPECT_TRUE(exists("pipe.h5"));
  EXPECT_FALSE(exists("pipe.h5.part"));
}

/// The table of 100 cases does not fit the buffer of stdout. So print() writes, and meets the closed pipe.
TEST_F(Output, TextThatNobodyReadsIsNoError) {
  write("many.yaml", R"(
input: {generate: {sequence: 64, heads: 1, head_dim: 8}}
attention: {scale: 0.5}
bench: {sweep: [{input.generate.seed: {from: 1, to: 100, step: 1}}], repeats: 1, warmup: 0, file: many.h5}
)");
  for (const std::string& launcher : {std::string(), fmt::format(ANNULUS_LAUNCH, 2) + " "}) {
    const Outcome ran = shell(launcher + "sh -c \"" ANNULUS_PROGRAM " bench many.yaml | :\"");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.err, "error"), 0) << ran.err;
    EXPECT_EQ(count(ran.err, "MPI_ABORT"), 0) << ran.err;
    EXPECT_TRUE(exists("many.h5"));
    std::filesystem::remove(folder / "many.h5");
    std::filesystem::remove_all(folder / "many.h5.part");  // the next launch measures again
  }
}

TEST_F(Output, ARunWithoutAFileOnlyTimes) {
  write("run.yaml", "input: {generate: {sequence: 512, heads: 2}}\noutput: {file: none, report: r.json}\n");
  const auto before = files();
  const Outcome ran = annulus(2, "run run.yaml --set compute.backward=true");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("result     none"), std::string::npos) << ran.out;
  EXPECT_EQ(files().size(), before.size() + 1) << "the report";
  const Outcome verified = annulus(1, "verify run.yaml");
  EXPECT_EQ(verified.status, 2);
  EXPECT_NE(verified.err.find("run.yaml:2:10: output.file: none has no result to verify"), std::string::npos)
      << verified.err;
}

// A new file would take the place of the log to which the shell has redirected stdout, and the summary would be lost.
TEST_F(Output, DoesNotReplaceWhatAStreamLeadsTo) {
  write("run.yaml", "input: {generate: {sequence: 16, heads: 2}}\noutput: {file: result.h5, overwrite: true}\n");
  std::filesystem::create_symlink("/dev/stdout", folder / "link");
  const auto before = files();
  for (const char* key : {"output.file", "output.report", "output.trace"}) {
    for (const char* name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"}) {
      const std::string run = fmt::format("{} run run.yaml --set {}={}", ANNULUS_PROGRAM, key, name);
      const std::string refused = fmt::format("{}: ", name);  // the name that the user wrote
      const Outcome to_file = shell("echo a log; " + run), to_pipe = shell(run + " | cat");
      EXPECT_EQ(to_file.status, 1) << run;
      EXPECT_EQ(to_file.out, "a log\n") << run;
      EXPECT_NE(to_file.err.find(refused), std::string::npos) << run << to_file.err;
      EXPECT_NE(to_pipe.err.find(refused), std::string::npos) << run << to_pipe.err;
    }
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Output, SaysWhatItIs) {
  generate("");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const std::string attributes = shell("h5dump -a /title -a /software -a /version result.h5").out;
  const std::string title =
      "attention of 2 x 77 rows, 4 heads of 20 (2 key/value heads), float32: longnet, causal, 2 pairs (16, 1) (all, 3)";
  EXPECT_NE(attributes.find(title), std::string::npos) << attributes;
  EXPECT_NE(attributes.find("\"annulus\""), std::string::npos) << attributes;
  const std::string version = annulus(0, "info").out.substr(8, 5);
  EXPECT_NE(attributes.find("\"" + version), std::string::npos) << attributes << version;
  EXPECT_EQ(shell("h5dump -a /date result.h5").status, 1);  // the date is in /provenance
}

/// Files of older versions have no dimension scales, and lack the attributes that strip() removes.
TEST_F(Output, FilesWithoutScalesAreReadAsEver) {
  generate("--dtype float16");
  write("run.yaml", deck);
  const auto strip = [&](const std::string& name) {
    const hid_t file = H5Fopen((folder / name).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    for (const char* dataset : {"q", "k", "v", "dout", "out", "lse", "dq", "dk", "dv"}) {
      if (H5Lexists(file, dataset, H5P_DEFAULT) <= 0) continue;
      EXPECT_GE(H5Adelete_by_name(file, dataset, "DIMENSION_LIST", H5P_DEFAULT), 0) << dataset;
      EXPECT_GE(H5Adelete_by_name(file, dataset, "units", H5P_DEFAULT), 0) << dataset;
    }
    for (const char* scale : {"batch", "sequence", "head", "kv_head", "dim"}) {
      EXPECT_GE(H5Ldelete(file, scale, H5P_DEFAULT), 0) << scale;
    }
    for (const char* attribute : {"title", "software", "version"}) EXPECT_GE(H5Adelete(file, attribute), 0);
    H5Fclose(file);
  };
  strip("in.h5");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  strip("result.h5");
  EXPECT_EQ(annulus(2, "verify run.yaml").status, 0);
}

TEST_F(Output, ReportsMakeATable) {
  generate("");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(3, "run run.yaml --set output.report=report.json --set distribution.partition=zigzag").status, 0);
  const auto settings = nlohmann::json::parse(slurp(folder / "report.json"))["settings"];
  const nlohmann::json expected{{"batch", 2},
                                {"rows", 77},
                                {"heads", 4},
                                {"kv_heads", 2},
                                {"head_dim", 20},
                                {"value_dim", 20},
                                {"type", "float32"},
                                {"output_type", "float32"},
                                {"documents", 1},
                                {"semantics", "longnet"},
                                {"segments", "16 all"},
                                {"dilations", "1 3"},
                                {"causal", true},
                                {"backward", true},
                                {"backend", "host"},
                                {"precision", "float32"},
                                {"reproducible", false},
                                {"strategy", "ring"},
                                {"chosen_by_auto", false},
                                {"partition", "zigzag"},
                                {"ranks", 3},
                                {"threads", 1}};
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(settings[name], value) << name;
  for (const char* name : {"cpu", "hosts", "device", "version", "git_commit", "instruction_set", "mpi", "kokkos"}) {
    ASSERT_TRUE(settings[name].is_string()) << name;
    EXPECT_FALSE(settings[name].get<std::string>().empty()) << name;
  }
  for (const auto& [name, value] : settings.items()) EXPECT_TRUE(value.is_primitive()) << name;  // a cell of the table
  ASSERT_EQ(annulus(1, "run run.yaml --set output.report=report.json").status, 0);
  EXPECT_EQ(nlohmann::json::parse(slurp(folder / "report.json"))["settings"]["partition"], "contiguous");
}

}  // namespace
}  // namespace annulus::test
