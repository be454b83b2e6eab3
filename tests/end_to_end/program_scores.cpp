// Softcap and ALiBi through the program: results agree with the definition, in passes and in blocks, too; what is shown
// and refused; and the slide encoder of docs/scores.md at a small size.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const std::string plane = " --set input.coordinates=places", alibi = "{alibi: auto, exempt: 1}";

class ProgramScores : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write_run("none");
    const Outcome made = annulus(0,
                                 "generate --output in.h5 --sequence 701 --heads 6 --kv-heads 3 --head-dim 16 "
                                 "--batch 2 --dout --dlse");
    ASSERT_EQ(made.status, 0) << made.err;
    put_places(701, 30);
  }

  /// Writes run.yaml with this attention.bias.
  void write_run(const std::string& bias) const {
    write("run.yaml", "input: {file: in.h5}\nattention: {segments: [16, 64, all], dilations: [1, 3, 5], bias: " + bias +
                          "}\ncompute: {backward: true}\ndistribution: {strategy: ring}\n"
                          "output: {file: out.h5, overwrite: true}\n");
  }
  /// Replaces the dataset `places` (rows, 2) by the points of a grid, line by line; `first` is x of the first point.
  void put_places(hsize_t rows, hsize_t line, double first = 0) const {
    std::vector<double> places;
    for (hsize_t row = 0; row < rows; ++row)
      places.insert(places.end(), {double(row % line), double(row - row % line) / double(line)});
    places[0] = first;
    const hid_t file = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    if (H5Lexists(file, "places", H5P_DEFAULT) > 0) H5Ldelete(file, "places", H5P_DEFAULT);
    const hsize_t extents[] = {rows, 2};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t data = H5Dcreate2(file, "places", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, places.data()), 0);
    H5Dclose(data);
    H5Sclose(space);
    H5Fclose(file);
  }
  std::vector<double> result(const std::string& dataset, const std::string& file = "out.h5") const {
    return numbers(folder / file, dataset);
  }
  Outcome run(int ranks, const std::string& set) const {
    const Outcome ran = annulus(ranks, "run run.yaml" + set);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran;
  }
  void expect_refused(int status, const std::string& set, const std::string& message) const {
    const Outcome refused = annulus(1, "run run.yaml" + set);
    EXPECT_EQ(refused.status, status) << set << refused.err;
    EXPECT_NE(refused.err.find(message), std::string::npos) << refused.err;
  }
};

TEST_F(ProgramScores, ResultsAreTheDefinition) {
  struct Run {
    int ranks;
    std::string bias, set;
  };
  for (const auto& [ranks, bias, set] :
       {Run{3, "none", " --set attention.softcap=2.5 --set output.statistics=[entropy,received,top]"},
        {2, alibi, plane + " --set distribution.strategy=ulysses --set input.dlse=/dlse"},
        {4, alibi,
         plane + " --set attention.softcap=30 --set distribution.strategy=hybrid --set distribution.ulysses_ranks=2"},
        {1, "{alibi: [0, 0.5, 1e-3, 2, 0.25, 7]}",
         " --set distribution.strategy=stream --set distribution.block_size=200"},
        {2, alibi, plane + " --set compute.memory_limit=1600KiB"},
        {1, alibi, plane + " --set compute.backend=device --set attention.softcap=30"},
        {1, "none",
         " --set attention.softcap=5 --set attention.semantics=torchscale --set attention.segments=[15,63,all]"}}) {
    write_run(bias);
    SCOPED_TRACE(set);
    run(ranks, set);
    const Outcome verified = annulus(2, "verify run.yaml --rows 40" + set);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  }
  const Outcome other = annulus(1, "verify run.yaml --set attention.softcap=4");
  EXPECT_EQ(other.status, 1) << "another function";
  spoil(folder / "out.h5", "dq", 2, 1e-2);
  const Outcome spoilt = annulus(1,
                                 "verify run.yaml --rows 3 --set attention.softcap=5 --set "
                                 "attention.semantics=torchscale --set attention.segments=[15,63,all]");
  EXPECT_EQ(spoilt.status, 3) << spoilt.out << spoilt.err;
}

TEST_F(ProgramScores, BitsDoNotDependOnRanks) {
  write_run(alibi);
  const std::string set = plane + " --set attention.softcap=3 --set compute.reproducible=true";
  run(1, set + " --set output.file=one.h5 --set distribution.strategy=single");
  for (const int ranks : {2, 3}) {
    run(ranks, set);
    for (const char* const name : {"out", "lse", "dq", "dk", "dv"}) EXPECT_EQ(result(name), result(name, "one.h5"));
  }
}

TEST_F(ProgramScores, AreShown) {
  write_run(alibi);
  const Outcome ran = run(1, plane + " --set attention.softcap=50");
  EXPECT_NE(ran.out.find("(all, 5), softcap 50, alibi in the plane"), std::string::npos) << ran.out;
  const Outcome dry = annulus(1, "run --dry-run --ranks 3 run.yaml");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("bias: {alibi: auto, exempt: 1}"), std::string::npos) << dry.out;
}

TEST_F(ProgramScores, WhatIsRefused) {
  expect_refused(2, plane, "without attention.bias nothing reads them");
  expect_refused(2, " --set attention.softcap=0", "attention.softcap");
  for (const auto& [bias, message] : {std::pair("{exempt: 1}", "{alibi: auto | [slope, ...], exempt: e}"),
                                      {"{alibi: auto, exemt: 1}", "unknown key 'exemt' in attention.bias"},
                                      {"{alibi: [-1, 0, 0, 0, 0, 0]}", "a finite number above 0"},
                                      {"{alibi: 0.5}", "auto, or a list of slopes, one for each query head"}}) {
    write_run(bias);
    expect_refused(2, "", message);
  }
  write_run("{alibi: [0.5]}");
  expect_refused(1, "", "1 slopes, expected one for each of the 6 query heads");
  write_run(alibi);
  expect_refused(2, " --set attention.semantics=torchscale", "torchscale fills in have no distance");
  put_places(700, 30);
  expect_refused(1, plane, "places has shape (700, 2), expected (701, 2)");
  put_places(701, 30, std::numeric_limits<double>::quiet_NaN());
  expect_refused(1, plane, "places holds nan at [0, 0], expected finite numbers");
  add_numbers(folder / "in.h5", "rows", {2, 2}, {5, 600, 0, 701}, H5T_STD_I64LE);
  expect_refused(1, plane + " --set input.lengths=rows", "places holds nan at [0, 0], expected finite numbers");
}

TEST_F(ProgramScores, CoordinatesOfRowsThatDoNotExistDoNotMatter) {
  write_run(alibi);
  put_places(701, 30, std::numeric_limits<double>::quiet_NaN());
  add_numbers(folder / "in.h5", "rows", {2, 2}, {5, 600, 1, 701}, H5T_STD_I64LE);
  const std::string set = plane + " --set input.lengths=rows";
  run(2, set);
  const Outcome verified = annulus(2, "verify run.yaml --rows 40" + set);
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(ProgramScores, LayersTakeACap) {
  const Outcome made = annulus(0, "generate --output layer.h5 --layer 24 --sequence 53 --heads 4 --head-dim 6");
  ASSERT_EQ(made.status, 0) << made.err;
  write(
      "run.yaml",
      "input: {file: layer.h5}\nattention: {segments: [16, all], dilations: [1, 2], softcap: 0.3}\nlayer: {heads: 4}\n"
      "compute: {backward: true}\noutput: {file: out.h5, overwrite: true}\n");
  run(2, "");
  const Outcome verified = annulus(2, "verify run.yaml --rows 20");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  const std::vector<double> capped = result("y");
  run(2, " --set attention.softcap=none");
  EXPECT_NE(result("y"), capped);
}

// What docs/scores.md shows: 12 heads of 64, tiles on a grid after a class token, row 0.
TEST_F(ProgramScores, SlideEncoder) {
  const Outcome made = annulus(0, "generate --output in.h5 --overwrite --sequence 401 --heads 12 --head-dim 64 --dout");
  ASSERT_EQ(made.status, 0) << made.err;
  put_places(401, 20);
  write("slide.yaml", R"(
input: {file: in.h5, coordinates: places}
attention: {causal: false, bias: {alibi: auto, exempt: 1}}
compute: {backward: true}
output: {file: out.h5, overwrite: true}
)");
  const Outcome ran = annulus(2, "run slide.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Outcome verified = annulus(2, "verify slide.yaml --rows 20");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

}  // namespace
}  // namespace annulus::test
