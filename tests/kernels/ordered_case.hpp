// A comb whose rows are cut into pieces, one for each rank, and the calls that the ranks make in the canonical order:
// the queries of piece a meet the keys of piece a (up to a query's own row), of pieces a - 1 down to 0, then of the
// last piece down to a + 1, and of piece a again (after a query's own row). A causal comb meets no later keys. All
// pieces make a step before the next step begins, so that keys meet queries in the mirrored order.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda_backward_case.hpp"

namespace annulus::test {

struct OrderedCase {
  Index rows = 0;
  bool causal = false;
  core::Shape shape = {1, 0, 3, 1, 16};  ///< its sequence is not used

  /// Pieces begin at 0 and at `cuts`.
  std::vector<core::WorkList> calls(const std::vector<Index>& cuts) const {
    std::vector<Index> begins{0};
    begins.insert(begins.end(), cuts.begin(), cuts.end());
    const Index pieces = Index(begins.size());
    begins.push_back(rows);
    std::vector<core::Run> runs;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      runs.push_back({begins[i], begins[i], 1, begins[i + 1] - begins[i]});
    std::vector<core::WorkList> all;
    const auto add = [&](Index queries, Index keys, core::Band mask) {
      core::WorkList list{runs, {}};
      for (Index kv = 0; kv < shape.kv_heads; ++kv) {
        list.items.push_back({{queries, 1, runs[std::size_t(queries)].count},
                              {keys, 1, runs[std::size_t(keys)].count},
                              kv,
                              kv * shape.group(),
                              1,
                              shape.group(),
                              mask});
      }
      all.push_back(list);
    };
    for (Index step = 0; step < pieces; ++step) {
      for (Index a = 0; a < pieces; ++a) {
        if (causal && step > a) continue;
        add(a, (a + pieces - step) % pieces, causal || step == 0 ? core::Band::upto : core::Band::all);
      }
    }
    for (Index a = 0; a < pieces && !causal; ++a) add(a, a, core::Band::after);
    return all;
  }

  BackwardCase with(DType type, core::Precision precision, const std::vector<Index>& cuts) const {
    BackwardCase test;
    test.shape = shape;
    test.query_rows = test.key_rows = rows;
    test.type = type;
    test.precision = precision;
    test.fill_all();
    test.calls = calls(cuts);
    return test;
  }
};

using Cuts = std::vector<Index>;

inline std::string name_of(const Cuts& cuts, bool causal) {
  std::string name = causal ? "causal, cuts" : "cuts";
  for (const Index cut : cuts) name += " " + std::to_string(cut);
  return name;
}

/// The bits of m, l and acc after all calls.
struct StateBits {
  std::vector<double> m, l, acc;
  bool operator==(const StateBits&) const = default;
};

/// Calls attend(list, {q, k, v}, scale, state) for each list. Returns the state; the answer is in `answer`.
template <class Attend>
StateBits state_by(const WorkCase& test, kernels::ReferenceResult& answer, const Attend& attend) {
  StateBits bits;
  std::size_t calls = 0;
  answer = answer_by(test,
                     [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
                       state.by_granules = true;
                       attend(list, qkv, scale, state);
                       if (++calls < test.calls.size()) return;
                       const Index rows = test.states();
                       bits = {from_device(state.m, rows, test.sums()), from_device(state.l, rows, test.sums()),
                               from_device(state.acc, rows * test.shape.head_dim, test.sums())};
                     });
  return bits;
}

/// Cuts between granules, which must not change bits; and cuts inside granules, which show that the test can fail.
inline const std::vector<Cuts> cuts_of_granules{{144}, {48, 112}, {16, 32, 80}};
inline const std::vector<Cuts> other_cuts{{40, 70}, {7, 60, 139}};

}  // namespace annulus::test
