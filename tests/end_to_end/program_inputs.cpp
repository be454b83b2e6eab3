// Input files as users have them: in PyTorch's order of axes, changed or locked by other processes during a run, with
// other numbers under the same name.
#include "annulus/pattern/partition.hpp"
#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

using Extents = std::vector<hsize_t>;

/// Adds a dataset to a file, which is made if it does not exist.
void put(const std::filesystem::path& path, const std::string& dataset, const Extents& extents,
         const std::vector<double>& values, hid_t type = H5T_IEEE_F32LE) {
  const bool there = std::filesystem::exists(path);
  const hid_t file = there ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                           : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(int(extents.size()), extents.data(), nullptr);
  const hid_t data = H5Dcreate2(file, dataset.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << dataset;
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
}

Extents extents_of(const std::filesystem::path& path, const std::string& dataset) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(data);
  Extents extents(std::size_t(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(file);
  return extents;
}

/// (B, X, Y, ...) -> (B, Y, X, ...)
std::vector<double> transposed(const std::vector<double>& values, const Extents& e) {
  std::size_t row = 1;
  for (std::size_t axis = 3; axis < e.size(); ++axis) row *= e[axis];
  std::vector<double> all;
  for (std::size_t b = 0; b < e[0]; ++b) {
    for (std::size_t y = 0; y < e[2]; ++y) {
      for (std::size_t x = 0; x < e[1]; ++x) {
        const auto from = values.begin() + std::ptrdiff_t(((b * e[1] + x) * e[2] + y) * row);
        all.insert(all.end(), from, from + std::ptrdiff_t(row));
      }
    }
  }
  return all;
}

/// Copies tensors from one file to another with axes 1 and 2 swapped, as torch.Tensor.transpose(1, 2).
void copy_transposed(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::vector<std::string>& datasets) {
  for (const std::string& name : datasets) {
    Extents e = extents_of(from, name);
    const std::vector<double> values = transposed(numbers(from, name), e);
    std::swap(e[1], e[2]);
    put(to, name, e, values);
  }
}

class Axes : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome made = annulus(
        0, "generate --output bshd.h5 --sequence 41 --heads 6 --kv-heads 2 --head-dim 8 --batch 2 --dout --dlse");
    ASSERT_EQ(made.status, 0) << made.err;
    copy_transposed(folder / "bshd.h5", folder / "bhsd.h5", {"q", "k", "v", "dout", "dlse"});
    write("bshd.yaml", deck("bshd"));
    write("bhsd.yaml", deck("bhsd"));
  }
  static std::string deck(const std::string& name) {
    return fmt::format(
        "input: {{file: {0}.h5, dlse: /dlse}}\nattention: {{segments: [16, all], dilations: [1, 3]}}\n"
        "compute: {{backward: true}}\noutput: {{file: {0}.out.h5, overwrite: true}}\n",
        name);
  }
};

TEST_F(Axes, PyTorchsOrderIsRefusedUnlessAskedFor) {
  for (const auto& [more, says] : std::vector<std::pair<std::string, std::string>>{
           {"--set input.k=/q --set input.v=/q", "dataset /q has shape (2, 6, 41, 8): 6 rows, 41 heads?"},
           {"", "dataset /k has shape (2, 2, 41, 8), which fits q (2, 6, 41, 8) with axes (batch, heads"}}) {
    for (const int ranks : {0, 3}) {
      const Outcome ran = annulus(ranks, "run bhsd.yaml " + more);
      EXPECT_EQ(ran.status, 1);
      for (const std::string& word : {says, std::string("axes are (batch, sequence, heads, head_dim)"),
                                      std::string("transpose(1, 2)"), std::string("input.axes: bhsd")}) {
        EXPECT_NE(ran.err.find(word), std::string::npos) << word << " is missing in:\n" << ran.err;
      }
      EXPECT_FALSE(exists("bhsd.out.h5"));
    }
  }
}

TEST_F(Axes, PyTorchsOrderGivesTheSameNumbersInItsOrder) {
  const std::vector<std::string> results{"out", "lse", "dq", "dk", "dv"};
  ASSERT_EQ(annulus(1, "run bshd.yaml").status, 0);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const std::string_view partition =
        pattern::partition_table[std::size_t(ranks - 1) % pattern::partition_table.size()].name;
    SCOPED_TRACE(fmt::format("{} on {}", partition, ranks));
    const std::string run = fmt::format(
        "run bhsd.yaml --set input.axes=bhsd --set distribution.strategy=rotation --set distribution.partition={}",
        partition);
    const Outcome ran = annulus(ranks, run);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("2 x 41 rows, 6 heads of 8 (2 key/value heads), float32 (axes bhsd)"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.err.find("(axes bhsd)"), std::string::npos) << "said before it computes: " << ran.err;
    for (const std::string& name : results) {
      Extents e = extents_of(folder / "bshd.out.h5", name);
      const auto expected = transposed(numbers(folder / "bshd.out.h5", name), e);
      std::swap(e[1], e[2]);
      EXPECT_EQ(extents_of(folder / "bhsd.out.h5", name), e) << name;
      EXPECT_LT(largest_difference(numbers(folder / "bhsd.out.h5", name), expected), 1e-5) << name;
    }
  }
  const Outcome axes = shell("h5dump -a /out/axes -a /lse/axes bhsd.out.h5");
  EXPECT_EQ(count(axes.out, "\"batch head sequence dim\""), 1) << axes.out;
  EXPECT_EQ(count(axes.out, "\"batch head sequence\""), 1) << axes.out;
  for (const int ranks : {1, 3}) {
    const Outcome verified = annulus(ranks, "verify bhsd.yaml --set input.axes=bhsd --rows 41");
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(count(verified.out, " ok"), 5) << verified.out;
  }
  spoil(folder / "bhsd.out.h5", "/out", ((1 * 6 + 4) * 41 + 13) * 8 + 5, 1);  // messages give the position in the file
  const Outcome wrong = annulus(2, "verify bhsd.yaml --set input.axes=bhsd --rows 41");
  EXPECT_EQ(wrong.status, 3) << wrong.out;
  EXPECT_NE(wrong.out.find("WRONG, largest at [1, 4, 13, 5]"), std::string::npos) << wrong.out;
  const Outcome other = annulus(2, "verify bhsd.yaml --set input.axes=bshd");
  EXPECT_EQ(other.status, 1) << other.out << other.err;
}

TEST_F(Axes, TheResolvedRunFileSaysWhichOrderWasFound) {
  const Outcome dry = annulus(0, "run --dry-run bshd.yaml");
  EXPECT_NE(dry.out.find("  axes: bshd\n"), std::string::npos) << dry.out;
  write("again.yaml", dry.out);
  EXPECT_EQ(annulus(2, "run again.yaml").status, 0);
}

// ---- files that other processes use at the same time ----

TEST_F(Axes, AnInputOpenForWritingElsewhereSaysSo) {
  const hid_t file = H5Fopen((folder / "bshd.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);  // as h5py in a notebook
  ASSERT_GE(file, 0);
  const Outcome ran = annulus(2, "run bshd.yaml");
  H5Fclose(file);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("bshd.h5: another process has it open for writing (a notebook? close it there, or use a with"),
            std::string::npos)
      << ran.err;
  EXPECT_EQ(annulus(2, "run bshd.yaml").status, 0);
}

TEST_F(Axes, AnInputReplacedDuringTheForwardPassIsRefused) {
  const std::string make = "generate --sequence 16384 --heads 16 --kv-heads 1 --dtype bfloat16 --dout ";
  ASSERT_EQ(annulus(0, make + "--output in.h5").status, 0);
  ASSERT_EQ(annulus(0, make + "--output other.h5 --seed 2").status, 0);
  write("long.yaml",
        "input: {file: in.h5}\nattention: {causal: false}\ncompute: {backward: true}\n"
        "distribution: {strategy: ring}\noutput: {file: result.h5}\n");
  // AVX2 slows the run: with products of bfloat16 it would take less than a second and print its last progress only.
  const std::string slower = " env ANNULUS_INSTRUCTION_SET=avx2 ";
  Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + slower + ANNULUS_PROGRAM + " run long.yaml");
  ASSERT_TRUE(run.reaches(" %  ", 2)) << run.err();  // q, k, v are read; dout is not
  std::filesystem::rename(folder / "other.h5", folder / "in.h5");
  EXPECT_EQ(run.status(most_seconds), 1) << run.err();
  EXPECT_NE(run.err().find("in.h5: changed since the run looked at it first: inode "), std::string::npos) << run.err();
  EXPECT_FALSE(exists("result.h5"));
}

/// The first launch loses its part file after all four cases have begun. So the second launch measures them one by one,
/// and its input is replaced before the last.
TEST_F(Axes, ASweepWhoseFilesAreReplacedFails) {
  const std::string make = "generate --sequence 8192 --heads 4 --output ";
  ASSERT_EQ(annulus(0, make + "in.h5").status, 0);
  ASSERT_EQ(annulus(0, make + "other.h5 --seed 2").status, 0);
  write("sweep.yaml",
        "input: {file: in.h5}\nbench: {sweep: [{distribution.strategy: [ring, rotation, allgather, single]}], "
        "repeats: 2, file: sweep.h5}\n");
  const std::string command = ANNULUS_PROGRAM " bench sweep.yaml";
  const auto finds = [&](const std::string& word, int times) {
    int found = 0;
    if (!exists("sweep.h5.part")) return false;
    for (const auto& one : std::filesystem::directory_iterator(folder / "sweep.h5.part")) {
      found += count(slurp(one.path()), word);
    }
    return found >= times;
  };
  {
    Launched run(folder, command);
    ASSERT_TRUE(run.reaches([&] { return finds("begun", 1); }, 1)) << run.err();
    std::filesystem::rename(folder / "sweep.h5.part", folder / "renamed");
    EXPECT_EQ(run.status(240), 1) << run.err();
    EXPECT_EQ(count(run.err(), "was removed, renamed or replaced while the sweep wrote it\n"), 1) << run.err();
    EXPECT_FALSE(exists("sweep.h5"));
  }
  std::filesystem::rename(folder / "renamed", folder / "sweep.h5.part");
  Launched run(folder, command);
  ASSERT_TRUE(run.reaches([&] { return finds("\"case\"", 2); }, 1)) << run.err();  // the first launch left one
  std::filesystem::rename(folder / "other.h5", folder / "in.h5");
  EXPECT_EQ(run.status(240), 1) << run.err();
  const std::string last = run.err().substr(std::min(run.err().size(), run.err().find("error: case 3 (")));
  EXPECT_NE(last.find("in.h5: changed since the run looked at it first: inode "), std::string::npos) << run.err();
}

// ---- attributes of netCDF ----

/// What every verb says of an input whose attributes change the meaning of its numbers.
class Attributes : public ProgramTest {
 protected:
  void mark(const std::string& dataset, const std::string& attribute, double value) const {
    const hid_t file = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t made = H5Acreate_by_name(file, dataset.c_str(), attribute.c_str(), H5T_IEEE_F64LE, space, H5P_DEFAULT,
                                         H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(made, H5T_NATIVE_DOUBLE, &value), 0);
    H5Aclose(made);
    H5Sclose(space);
    H5Fclose(file);
  }
  void unmark(const std::string& dataset, const std::string& attribute) const {
    const hid_t file = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(H5Adelete_by_name(file, dataset.c_str(), attribute.c_str(), H5P_DEFAULT), 0);
    H5Fclose(file);
  }
  /// Commands are refused on one and on two ranks while the dataset has this attribute, and go on without it.
  void expect_refused(const std::vector<std::string>& commands, const std::string& dataset,
                      const std::string& attribute, double value) const {
    mark(dataset, attribute, value);
    for (const std::string& command : commands) {
      for (const int ranks : {0, 2}) {
        const Outcome outcome = annulus(ranks, command);
        EXPECT_EQ(outcome.status, 1) << command << "\n" << outcome.out << outcome.err;
        for (const std::string& word : {"in.h5: dataset " + dataset + " ", "attribute " + attribute}) {
          EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is missing in:\n" << outcome.err;
        }
      }
    }
    unmark(dataset, attribute);
    mark(dataset, "_FillValue", -1e30);  // no number of the dataset has this value
    EXPECT_EQ(annulus(2, commands.front()).status, 0);
    unmark(dataset, "_FillValue");
  }
};

TEST_F(Attributes, PackedOrMissingNumbersAreRefused) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 40 --heads 2 --head-dim 4 --dout").status, 0);
  write("run.yaml", "input: {file: in.h5}\ncompute: {backward: true}\noutput: {file: out.h5, overwrite: true}\n");
  write("bench.yaml",
        "input: {file: in.h5}\nbench: {file: sweep.h5, sweep: [{distribution.strategy: [ring]}], repeats: 1}\n");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const std::vector<std::string> commands{"run run.yaml", "run run.yaml --set distribution.strategy=stream",
                                          "verify run.yaml"};
  for (const std::string dataset : {"/k", "/dout"}) {
    const std::vector<double> values = numbers(folder / "in.h5", dataset);
    expect_refused(commands, dataset, "_FillValue", values[0]);
    expect_refused(commands, dataset, "missing_value", values[7]);
    expect_refused(commands, dataset, "scale_factor", 2);
    expect_refused(commands, dataset, "add_offset", 1);
  }
  mark("/q", "scale_factor", 2);
  EXPECT_EQ(annulus(2, "bench bench.yaml").status, 1);
}

TEST_F(Attributes, PackedOrMissingNumbersOfALayerAreRefused) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --layer 8 --sequence 40 --heads 2 --head-dim 4").status, 0);
  write("run.yaml",
        "input: {file: in.h5}\nlayer: {heads: 2}\noutput: {file: out.h5, overwrite: true}\n"
        "train: {steps: 1, rate: 1, checkpoint: check.h5}\n");
  for (const std::string dataset : {"/x", "/wv"}) {
    const double first = numbers(folder / "in.h5", dataset).front();
    expect_refused({"run run.yaml", "train run.yaml"}, dataset, "_FillValue", first);
    expect_refused({"run run.yaml", "train run.yaml"}, dataset, "add_offset", 1);
  }
}

// ---- training on other data ----

class TrainingData : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome made =
        annulus(0, "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --head-dim 6 --batch 2");
    ASSERT_EQ(made.status, 0) << made.err;
    write("run.yaml",
          "input: {file: in.h5}\nattention: {segments: [16, all], dilations: [1, 2]}\nlayer: {heads: 4}\n"
          "train: {steps: 2, rate: 1, checkpoint: check.h5}\noutput: {file: result.h5, overwrite: true}\n");
    ASSERT_EQ(annulus(2, "train run.yaml").status, 0);
  }
  Outcome further(int ranks, const std::string& more = "") const {
    return annulus(ranks, "train run.yaml --set train.steps=3 " + more);
  }
  void expect_goes_on(const Outcome& outcome) const {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(count(outcome.err, "goes on from"), 1) << outcome.err;
  }
};

TEST_F(TrainingData, OtherNumbersUnderTheSameNameAreRefused) {
  const auto kept = folder / "kept.h5";
  std::filesystem::copy(folder / "in.h5", kept);
  for (const auto& [dataset, at] : {std::pair("/x", 7), std::pair("/target", 2 * 53 * 24 - 1)}) {
    spoil(folder / "in.h5", dataset, std::size_t(at), 1e-3);
    for (const int ranks : {1, 3}) {
      const Outcome outcome = further(ranks, "--set layer.sharding=fsdp");
      EXPECT_EQ(outcome.status, 1);
      for (const std::string& word :
           {std::string("check.h5"), std::string("in.h5"), fmt::format("dataset {} ", dataset),
            std::string("trained on other numbers"), std::string("run.yaml:4:28: train.checkpoint")}) {
        EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is missing in:\n" << outcome.err;
      }
    }
    std::filesystem::copy(kept, folder / "in.h5", std::filesystem::copy_options::overwrite_existing);
  }
  expect_goes_on(further(2));
}

TEST_F(TrainingData, RowsInAnotherOrderAreOtherNumbers) {
  std::vector<double> x = numbers(folder / "in.h5", "/x");
  std::swap_ranges(x.begin(), x.begin() + 24, x.begin() + 24);
  put(folder / "in.h5", "/swapped", {2, 53, 24}, x);
  ASSERT_EQ(shell("h5copy -i in.h5 -o new.h5 -s /swapped -d /x && for n in target wq wk wv wo; do h5copy -i in.h5 -o "
                  "new.h5 -s /$n -d /$n; done && mv new.h5 in.h5")
                .status,
            0);
  const Outcome outcome = further(2);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("dataset /x "), std::string::npos) << outcome.err;
}

TEST_F(TrainingData, TheSameNumbersElsewhereGoOn) {
  std::filesystem::create_directory(folder / "moved");
  ASSERT_EQ(shell("cp in.h5 moved/data.h5 && touch moved/data.h5 && rm in.h5").status, 0);
  expect_goes_on(further(3, "--set input.file=moved/data.h5"));
  expect_goes_on(annulus(1, "train run.yaml --set train.steps=4 --set input.file=moved/data.h5"));
}

TEST_F(TrainingData, OtherDocumentsAreOtherData) {
  const auto put_offsets = [&](const std::string& file, int middle) {
    put(folder / file, "documents", {3}, {0, double(middle), 53}, H5T_STD_I64LE);
  };
  std::filesystem::copy(folder / "in.h5", folder / "other.h5");
  put_offsets("in.h5", 20);
  put_offsets("other.h5", 21);
  const std::string train = "train run.yaml --set input.documents=documents --set train.checkpoint=d.h5 ";
  ASSERT_EQ(annulus(2, train).status, 0);
  const Outcome outcome = annulus(2, train + "--set input.file=other.h5");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("other numbers than those of dataset documents of "), std::string::npos) << outcome.err;
  expect_goes_on(annulus(1, train + "--set train.steps=3"));
}

TEST_F(TrainingData, ADatasetThatIsLeftOutOrAddedIsAnotherSetting) {
  put(folder / "in.h5", "documents", {3}, {0, 20, 53}, H5T_STD_I64LE);
  put(folder / "in.h5", "lengths", {2}, {53, 40}, H5T_STD_I64LE);
  put(folder / "in.h5", "coordinates", {53, 2}, std::vector<double>(106, 0.5));
  const std::string train = "train run.yaml --set \"attention.bias={alibi: auto}\" --set train.checkpoint=";
  ASSERT_EQ(annulus(0, train + "bare.h5").status, 0);
  for (const std::string name : {"documents", "lengths", "coordinates"}) {
    const std::string with = fmt::format(" --set input.{0}={0}", name);
    ASSERT_EQ(annulus(0, fmt::format("{}{}.h5{}", train, name, with)).status, 0);
    const Outcome out = annulus(0, train + name + ".h5 --set train.steps=3");
    EXPECT_EQ(out.status, 1) << out.err;
    EXPECT_EQ(count(out.err, fmt::format("input.{0}: {0} -> none\n", name)), 1) << out.err;
    const Outcome added = annulus(0, fmt::format("{}bare.h5 --set train.steps=3{}", train, with));
    EXPECT_EQ(added.status, 1) << added.err;
    EXPECT_EQ(count(added.err, fmt::format("input.{0}: none -> {0}\n", name)), 1) << added.err;
  }
}

TEST_F(TrainingData, ACheckpointThatDoesNotKnowItsDataGoesOnWithAWarning) {
  const hid_t file = H5Fopen((folder / "check.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  for (const char* name : {"fingerprint_x", "fingerprint_target"}) EXPECT_GE(H5Adelete(file, name), 0) << name;
  H5Fclose(file);
  const Outcome outcome = further(2);
  expect_goes_on(outcome);
  EXPECT_NE(outcome.err.find("check.h5 does not tell what numbers it was trained on"), std::string::npos)
      << outcome.err;
  const Outcome then = annulus(2, "train run.yaml --set train.steps=4");
  expect_goes_on(then);
  EXPECT_EQ(then.err.find("does not tell"), std::string::npos) << then.err;
}

}  // namespace
}  // namespace annulus::test
