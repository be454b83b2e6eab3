#include "annulus/app/verbs/verify.hpp"

#include <cstdio>
#include <filesystem>

#include "annulus/app/verbs/verify_layer.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/io/result_file.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/tensor_file.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/result.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/verdict.hpp"

namespace annulus::app {
namespace {

using core::DType;
using core::ErrorKind;
using namespace verify;

/// Datasets of a result of attention alone.
std::map<std::string, io::DatasetInfo> expected_datasets(const io::RunFile& run, const VerifyInput& input) {
  std::map<std::string, io::DatasetInfo> all;
  const auto add = [&](const io::TensorSpec& spec) { all[spec.name] = {spec.extents, spec.type, spec.order}; };
  const core::Shape& s = input.shape;
  add(io::tensor_spec("out", input.type, s, s.heads, input.order));
  add(io::lse_spec("lse", input.type, s, input.order));
  if (!run.settings.compute.backward) return all;
  add(io::tensor_spec("dq", input.type, s, s.heads, input.order));
  add(io::tensor_spec("dk", input.type, s, s.kv_heads, input.order));
  add(io::tensor_spec("dv", input.type, s, s.kv_heads, input.order));
  return all;
}

/// A result and what it is held against.
struct Judged {
  const io::RunFile& run;
  const VerifyInput& input;
  const io::SeenFile& result;
};

/// Every rank's part of the rows, then of all of them; collective.
std::vector<Verdict> judge(const Judged& judged, const std::vector<Index>& rows, bool& recompute_viewers,
                           const comm::Communicator& comm) {
  const auto& [run, input, file] = judged;
  const bool backward = run.settings.compute.backward;
  const kernels::ReferencePattern pattern = reference_pattern(run.settings.attention, input);
  std::vector<Index> mine;  // dealt like cards: causal rows further down have more keys
  for (std::size_t i = std::size_t(comm.rank()); i < rows.size(); i += std::size_t(comm.size()))
    mine.push_back(rows[i]);
  recompute_viewers = backward && comm.max(Index(!can_recompute_viewers(input, pattern, mine))) == 0;
  ForwardDeviations forward;
  GradientDeviations gradients;
  comm::agree(comm, [&] {
    const std::vector<QueryRow> queries = recompute_rows(input, pattern, mine);
    forward = compare_forward(input, file, queries);
    if (backward) gradients = compare_gradients(input, pattern, file, queries, mine, recompute_viewers);
  });
  const double outputs = allowed(core::forward_tolerance, input.type, run.settings.compute),
               derived = allowed(core::gradient_tolerance, input.type, run.settings.compute);
  std::vector<Verdict> all{{"out", outputs, forward.out.merged(comm)}, {"lse", outputs, forward.lse.merged(comm)}};
  if (backward) {
    all.push_back({"dq", derived, gradients.dq.merged(comm)});
    all.push_back({"dk", derived, gradients.dk.merged(comm)});
    all.push_back({"dv", derived, gradients.dv.merged(comm)});
  }
  return all;
}

}  // namespace

int verify(const VerifyOptions& options, const comm::Communicator& comm) {
  io::RunFile run = io::read_run_file(options.run_file, options.overrides, comm);
  comm::set_stall_timeout(run.settings.distribution.stall_timeout);
  if (run.settings.layer) return verify_layer(options, comm);
  const bool backward = run.settings.compute.backward;
  const AttentionInput input(run.settings.input, backward, comm);
  if (run.settings.input.file) run.settings.input.axes = input.order;
  const io::SeenFile result = look_at_result(run, expected_datasets(run, input), comm);

  const std::vector<Index> rows =
      sample_rows(reference_pattern(run.settings.attention, input), input.shape.sequence, options.rows);
  bool recompute_viewers = false;
  const std::vector<Verdict> verdicts = judge({run, input, result}, rows, recompute_viewers, comm);
  const bool good = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.good(); });
  if (comm.is_root()) {
    std::printf("%s against the definition in float64: %zu of %lld rows, all %lld heads, %lld batch entr%s\n",
                result.path.c_str(), rows.size(), static_cast<long long>(input.shape.sequence),
                static_cast<long long>(input.shape.heads), static_cast<long long>(input.shape.batch),
                input.shape.batch == 1 ? "y" : "ies");
    for (const Verdict& verdict : verdicts) verdict.print();
    if (backward) {
      std::printf("  dk, dv: lse and out of the queries that see these keys %s\n",
                  recompute_viewers ? "recomputed, too" : "taken from the result; to recompute them is too much work");
    }
    std::printf("  %s  (error: max |difference| / max(1, max |reference|))\n",
                good ? "within tolerance" : "OUTSIDE TOLERANCE");
  }
  return good ? 0 : int(ErrorKind::verification);
}

}  // namespace annulus::app
