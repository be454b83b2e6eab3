// Bands with two ends on the host against the definition, on every instruction set this machine has.
#include "kernels/band_case.hpp"
#include "kernels/host_backward_case.hpp"
#include "kernels/statistics_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

TEST(HostBands, PiecesOfSeveralRunsInEveryType) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const Band& band : window_bands)
      expect_both_passes(with_band(awkward_backward_case(24, type, precision, Band::all), band), name_of(band));
  }
}

TEST(HostBands, RowsAndKeysAroundTheBlocks) {
  for (const Index n : {1, 2, 13, 95, 97, 193}) {
    for (const Band& band : window_bands) {
      BackwardCase test = backward_case(n, n + n % 5, 20, band);
      test.fill_all();
      expect_both_passes(test, fmt::format("{} rows, {}", n, name_of(band)));
    }
  }
}

TEST(HostBands, LongRowsCrossTilesChunksAndTasks) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const Band& band : {Band{150, 60}, Band{1000, 0}, Band{-300, 900}, Band{11, 12}}) {
      BackwardCase test = backward_case(1607, 1607, 64, band);
      test.type = core::type_of(precision);
      test.precision = precision;
      test.fill_all();
      expect_both_passes(test, name_of(band));
    }
  }
}

TEST(HostBands, Statistics) {
  for (const Band& band : window_bands) {
    const WorkCase test = with_band(statistics_case(24, Band::all, DType::float32, Precision::float32), band);
    const std::vector<double> lse = naive_answer(test).lse;
    const StatisticsAnswer expected = naive_statistics(test, lse, 6);
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      SCOPED_TRACE(name_of(band) + " " + std::string(name_of(set)));
      const auto attend = [&](const auto& list, const auto& operands, const auto& views) {
        kernels::host::host_attend_statistics(list, test.shape, test.query_rows, test.precision, operands, views, {},
                                              set);
      };
      expect_close(made_statistics(test, lse, 6, attend), expected, core::forward_tolerance(DType::float32));
    }
  }
}

// A window is the sum of two bands, up to the diagonal and after it: together they have the same (query, key) pairs.
TEST(HostBands, TwoHalvesAreTheWhole) {
  BackwardCase whole = backward_case(211, 211, 16, {40, 25});
  whole.type = DType::float64;
  whole.precision = Precision::float64;
  whole.fill_all();
  BackwardCase halves = whole;
  halves.calls.push_back(halves.calls[0]);
  halves.calls[0].items[0].band = core::overlap(Band{40, 25}, Band::upto);
  halves.calls[1].items[0].band = core::overlap(Band{40, 25}, Band::after);
  const kernels::ReferenceResult forward = stored_forward(whole);
  expect_close(host_gradients(halves, forward), naive_gradients(whole, forward), 1e-12);
  EXPECT_TRUE(close_to(host_answer(halves, kernels::host::best_instruction_set()).out, naive_answer(whole).out, 1e-13));
}

}  // namespace
}  // namespace annulus::test
