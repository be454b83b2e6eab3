// Machine files: a file that was written reads back the same; an error message gives the line and column of a mistake.
#include <gtest/gtest.h>

#include "annulus/core/instruction_set.hpp"
#include "annulus/runfile/machine_file.hpp"

namespace annulus::runfile {
namespace {

const std::string good = R"(kernel:
  head_dims: [64, 256]
  seconds_per_gflop: [0.02, 1.5e-2]
  float64_factor: 2
  half_factor: 1.25
  single_factor: 0.75
inside_node: {seconds_per_message: 1e-6, seconds_per_byte: 5e-10}
between_nodes:
  seconds_per_message: 3e-6
  seconds_per_byte: 1e-9
overlap: 0
seconds_per_copied_byte: 3e-10
memory_per_rank: 4e9
ranks_per_node: 16
)";

TEST(MachineFile, EveryKeyArrives) {
  const core::Machine m = parse_machine_file(good, "m.yaml");
  EXPECT_EQ(m.source, "m.yaml");
  ASSERT_EQ(m.kernel.size(), 2u);
  EXPECT_EQ(m.kernel[0].head_dim, 64);
  EXPECT_EQ(m.kernel[1].seconds_per_gflop, 0.015);
  EXPECT_EQ(m.float64_factor, 2);
  EXPECT_EQ(m.half_factor, 1.25);
  EXPECT_EQ(m.bfloat16_factor, core::Machine{}.bfloat16_factor) << "older files lack it";
  EXPECT_EQ(m.single_factor, 0.75);
  EXPECT_EQ(m.inside_node.seconds_per_message, 1e-6);
  EXPECT_EQ(m.inside_node.seconds_per_byte, 5e-10);
  EXPECT_EQ(m.between_nodes.seconds_per_message, 3e-6);
  EXPECT_EQ(m.between_nodes.seconds_per_byte, 1e-9);
  EXPECT_EQ(m.overlap, 0);
  EXPECT_EQ(m.seconds_per_copied_byte, 3e-10);
  EXPECT_EQ(m.memory_per_rank, 4e9);
  EXPECT_EQ(m.ranks_per_node, 16);
}

TEST(MachineFile, WhatIsWrittenReadsBack) {
  for (const core::Machine& machine : {core::default_machine(), parse_machine_file(good, "m.yaml")}) {
    const std::string text = machine_file_text(machine, {"measured: never", "colons: and # signs"});
    const core::Machine again = parse_machine_file(text, "again.yaml");
    EXPECT_EQ(machine_file_text(again, {"measured: never", "colons: and # signs"}), text);
    EXPECT_NEAR(again.memory_per_rank, machine.memory_per_rank, 1e-5 * machine.memory_per_rank);
    EXPECT_EQ(again.overlap, machine.overlap);
  }
}

/// `good` with `piece` replaced by `by`.
std::string with(const std::string& piece, const std::string& by) {
  std::string text = good;
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), by);
}

TEST(MachineFile, ProductsHaveRatesOfTheirOwn) {
  using core::DType;
  using core::Precision;
  core::Machine m = parse_machine_file(
      with("  half_factor: 1.25\n", "  half_factor: 1.25\n  bfloat16_factor: 0.2\n  3xbfloat16_factor: 0.5\n"),
      "m.yaml");
  EXPECT_DOUBLE_EQ(m.seconds_per_gflop(64, DType::bfloat16, Precision::bfloat16), 0.02 * 0.2);
  EXPECT_DOUBLE_EQ(m.seconds_per_gflop(64, DType::bfloat16, Precision::float32), 0.02 * 1.25);
  EXPECT_DOUBLE_EQ(m.seconds_per_gflop(64, DType::float16, Precision::three_bfloat16), 0.02 * 0.5);
  EXPECT_DOUBLE_EQ(m.seconds_per_gflop(64, DType::float32, Precision::six_bfloat16), 0.02 * m.six_bfloat16_factor);
  m.take_own_products();
  const bool fast = core::has_matrix_units();
  EXPECT_EQ(m.bfloat16_factor < 0.3, fast);
  EXPECT_EQ(m.three_bfloat16_factor < 1, fast);
  EXPECT_EQ(m.six_bfloat16_factor < 1, fast) << "vectors in place of the matrix unit are slow";
}

void expect_refused(const std::string& text, const std::string& start, const std::string& word) {
  try {
    parse_machine_file(text, "m.yaml");
    ADD_FAILURE() << "accepted:\n" << text;
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    EXPECT_EQ(std::string(error.what()).rfind(start, 0), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(MachineFile, MistakesAreToldWithTheirPlace) {
  expect_refused("", "m.yaml:1:1: ", "machine file");
  expect_refused("[1]", "m.yaml:1:1: ", "a list");
  expect_refused(with("overlap:", "overlop:"), "m.yaml:11:1: ", "overlap");
  expect_refused(with("half_factor:", "halve_factor:"), "m.yaml:5:3: ", "half_factor");
  expect_refused(with("  float64_factor: 2\n", ""),
                 "m.yaml:1:1: ", "kernel.float64_factor is missing, expected time with");
  expect_refused(with("ranks_per_node: 16\n", ""), "m.yaml:1:1: ", "ranks_per_node is missing");
  expect_refused(with("overlap: 0", "overlap: 1.5"), "m.yaml:11:10: ", "0 to 1");
  EXPECT_EQ(parse_machine_file(with("overlap: 0", "overlap: 0.0"), "m.yaml").overlap, 0);
  expect_refused(with("overlap: 0", "overlap: -0.5"), "m.yaml:11:10: ", "overlap");
  expect_refused(with("overlap: 0", "overlap: '0'"), "m.yaml:11:10: ", "the quoted text '0'");
  expect_refused(with("[0.02, 1.5e-2]", "[0.02]"), "m.yaml:3:22: ", "1 entries");
  expect_refused(with("[64, 256]", "[64, 64]"), "m.yaml:2:19: ", "65 to 576");
  expect_refused(with("[64, 256]", "[576, 600]"), "m.yaml:2:20: ", "'600', expected ascending head sizes up to 576");
  expect_refused(with("seconds_per_byte: 5e-10", "seconds_per_byte: 0"), "m.yaml:7:", "above 0");
  expect_refused(with("ranks_per_node: 16", "ranks_per_node: 1.5"), "m.yaml:14:17: ", "whole number");
  expect_refused(with("inside_node: {seconds_per_message: 1e-6, seconds_per_byte: 5e-10}", "inside_node: 3"),
                 "m.yaml:7:14: ", "section");
  expect_refused(good + "overlap: 0.5\n", "m.yaml:15:1: ", "duplicate");
}

}  // namespace
}  // namespace annulus::runfile
