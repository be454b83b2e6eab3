// Sums of dk and dv over many rows are made in two levels, and so are as accurate as sums over few rows.
#include <numeric>

#include "kernels/host_backward_case.hpp"

namespace annulus::test {
namespace {

using core::Precision;

/// One head of D = 16, rows and keys 0 ... n - 1, in lists of rows that end where `cuts` say.
BackwardCase many_rows(Index n, bool causal, const std::vector<Index>& cuts) {
  BackwardCase test{plain_case(n, n, 16, causal)};
  test.fill_all();
  test.dlse.clear();
  const core::WorkList whole = test.calls[0];
  test.calls.clear();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    core::WorkList& list = test.calls.emplace_back(whole);
    list.runs[0] = {cuts[i], cuts[i], 1, cuts[i + 1] - cuts[i]};
    list.items[0].query.count = cuts[i + 1] - cuts[i];
  }
  return test;
}

/// Both passes by the host back end in float64, because the definition takes too long.
kernels::ReferenceResult forward_of(BackwardCase test) {
  test.precision = Precision::float64;
  test.type = DType::float64;
  return host_answer(test, kernels::host::best_instruction_set());
}
Gradients exact_gradients(BackwardCase test, const kernels::ReferenceResult& forward) {
  test.precision = Precision::float64;
  return host_gradients(test, forward);
}

TEST(HostSums, OfManyRowsKeepTheirDigits) {
  constexpr Index n = 8192;
  for (const bool causal : {true, false}) {
    const BackwardCase whole = many_rows(n, causal, {0, n}), cut = many_rows(n, causal, {0, 1000, 4100, 4101, 7000, n});
    kernels::ReferenceResult forward = forward_of(whole);
    forward.out = rounded(forward.out, DType::float32);
    const Gradients exact = exact_gradients(whole, forward);
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      SCOPED_TRACE(std::string(name_of(set)) + (causal ? ", causal" : ""));
      const Gradients at_once = host_gradients(whole, forward, {set}),
                      in_blocks = host_gradients(whole, forward, {.set = set, .in_blocks = true});
      // A single sum over all rows would have an error of 4e-6.
      for (const Gradients& g : {at_once, in_blocks}) {
        EXPECT_TRUE(close_to(g.dk, exact.dk, 1e-6)) << "dk";
        EXPECT_TRUE(close_to(g.dv, exact.dv, 1e-6)) << "dv";
      }
      expect_same_bits(host_gradients(cut, forward, {.set = set, .in_blocks = true}), in_blocks);
    }
  }
}

}  // namespace
}  // namespace annulus::test
