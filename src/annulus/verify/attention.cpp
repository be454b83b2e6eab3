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

double allowed(double (*tolerance)(core::DType), const VerifyInput& input) {
  const bool single = input.precision == core::Precision::float32;
  return std::max(tolerance(input.type), single ? tolerance(core::DType::float32) : 0);
}

Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm) {
  const std::vector<Index> rows = sample_rows(input, sample.rows);
  const std::vector<Index> mine = own_share(rows, comm.rank(), comm.size());
  const bool recompute_viewers = sample.gradients && comm.max(Index(!can_recompute_viewers(input, mine))) == 0;
  ForwardDeviations forward;
  GradientDeviations gradients;
  comm::agree(comm, [&] {
    const std::vector<QueryRow> queries = recompute_rows(input, mine);
    forward = compare_forward(input, sample.result, queries);
    if (sample.gradients) gradients = compare_gradients(input, sample.result, queries, mine, recompute_viewers);
  });

  const core::Shape& s = input.shape;
  Findings findings;
  findings.scope = fmt::format("the definition in float64: {} of {} rows, all {} heads, {} batch entr{}", rows.size(),
                               s.sequence, s.heads, s.batch, s.batch == 1 ? "y" : "ies");
  const auto add = [&](const char* name, double (*tolerance)(core::DType), const Deviation& deviation) {
    findings.verdicts.push_back({name, allowed(tolerance, input), deviation.merged(comm)});
  };
  add("out", core::forward_tolerance, forward.out);
  add("lse", core::forward_tolerance, forward.lse);
  if (!sample.gradients) return findings;
  add("dq", core::gradient_tolerance, gradients.dq);
  add("dk", core::gradient_tolerance, gradients.dk);
  add("dv", core::gradient_tolerance, gradients.dv);
  findings.notes = {
      fmt::format("dk, dv: lse and out of the queries that see these keys {}",
                  recompute_viewers ? "recomputed, too" : "taken from the result; to recompute them is too much work")};
  return findings;
}

}  // namespace annulus::verify
