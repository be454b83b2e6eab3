#include <fmt/format.h>

#include <algorithm>

#include "annulus/core/tolerance.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::verify {

bool Findings::good() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.good(); });
}

double allowed(double (*tolerance)(core::DType), const VerifyInput& input, core::DType stored) {
  const core::DType sums = input.precision == core::Precision::float32 ? core::DType::float32 : core::DType::float64;
  return std::max({tolerance(input.type), tolerance(sums), tolerance(stored)});
}

Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm) {
  const std::vector<Index> rows = sample_rows(input, sample.rows);
  const std::vector<Index> mine = own_share(rows, comm.rank(), comm.size());
  const bool recompute = sample.gradients && comm.max(Index(!can_recompute_viewers(input, mine))) == 0;
  const Viewers viewers = recompute ? Viewers::recomputed : sample.file ? Viewers::from_result : Viewers::nowhere;
  ForwardDeviations forward;
  GradientDeviations gradients;
  const auto shown = [&](double from, double to, const char* what) -> ShareShown {
    return [&, from, to, what](double share) {
      if (sample.progress) sample.progress(from + (to - from) * share, what);
    };
  };
  comm::agree(comm, [&] {
    const double half = sample.gradients ? 0.5 : 1;  // gradients look at the keys, or the queries, about once more
    const std::vector<QueryRow> queries = recompute_rows(input, mine, shown(0, half, "out and lse"));
    forward = compare_forward(input, sample.result, queries);
    if (!sample.gradients) return;
    gradients = compare_gradients(input, sample.result, queries, mine, viewers, shown(half, 1, "dk and dv"));
  });

  const core::Shape& s = input.shape;
  Findings findings;
  findings.scope = fmt::format("the definition in float64: {} of {} rows, all {} heads, {} batch entr{}", rows.size(),
                               s.sequence, s.heads, s.batch, s.batch == 1 ? "y" : "ies");
  const auto add = [&](const char* name, double (*tolerance)(core::DType), const Deviation& deviation) {
    const core::DType stored = sample.stored(name, input.type);
    findings.verdicts.push_back({name, allowed(tolerance, input, stored), deviation.merged(comm)});
  };
  add("out", core::forward_tolerance, forward.out);
  add("lse", core::forward_tolerance, forward.lse);
  if (!sample.gradients) return findings;
  add("dq", core::gradient_tolerance, gradients.dq);
  if (viewers == Viewers::nowhere) {
    findings.notes = {"dk, dv not looked at: to recompute the queries that see these keys is too much work"};
    return findings;
  }
  add("dk", core::gradient_tolerance, gradients.dk);
  add("dv", core::gradient_tolerance, gradients.dv);
  findings.notes = {
      fmt::format("dk, dv: lse and out of the queries that see these keys {}",
                  recompute ? "recomputed, too" : "taken from the result; to recompute them is too much work")};
  return findings;
}

}  // namespace annulus::verify
