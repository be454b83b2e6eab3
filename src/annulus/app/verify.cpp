#include "annulus/app/verify.hpp"

#include <cstdio>
#include <filesystem>

#include "annulus/app/verdict.hpp"
#include "annulus/app/verify_gradients.hpp"
#include "annulus/app/verify_layer.hpp"
#include "annulus/app/verify_rows.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/io/result_file.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::app {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;

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

/// The run file that a result was made with.
io::RunFile settings_of_result(const std::string& file) {
  try {
    return io::parse_run_file(io::read_text_dataset(file, "/run/settings"), file + ":/run/settings", {});
  } catch (const std::exception& error) {  // a failure of this file, not of the user's run file
    fail(ErrorKind::failure, "{}: is no result of `annulus run`: {}", file, error.what());
  }
}

bool has_losses(const std::string& file) {
  try {
    io::look_at_dataset(file, "loss");
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// On rank 0.
void check_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets) {
  const std::string& file = run.settings.output.file;
  const comm::Blocked inside("the look at " + file);
  const io::RunFile made = settings_of_result(file);
  if (has_losses(file)) {
    fail(ErrorKind::failure,
         "{}: is a result of `annulus train` (it has a dataset loss), expected one of `annulus run`", file);
  }
  const std::vector<std::string> changes = io::differences(made.settings, run.settings);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: was made with other settings than {} has now: {}", file, run.name,
         fmt::join(changes, "; "));
  }
  for (const auto& [name, expected] : datasets) {
    const io::DatasetInfo found = io::look_at_dataset(file, name);
    if (found.extents == expected.extents && found.type == expected.type) continue;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) to fit the input", file, name,
         core::name_of(found.type), fmt::join(found.extents, ", "), core::name_of(expected.type),
         fmt::join(expected.extents, ", "));
  }
}

}  // namespace

io::SeenFile look_at_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets,
                            const comm::Communicator& comm) {
  const std::string& file = run.settings.output.file;
  io::on_root(comm, [&] {
    const comm::Blocked inside("the look for " + file);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return;
    fail(ErrorKind::failure, "{}: there is no result yet, first: annulus run {}", file, run.name);
  });
  const io::SeenFile seen{file, io::identity_together(file, comm), datasets};
  io::on_root(comm, [&] { check_result(run, datasets); });
  return seen;
}

double allowed(double (*tolerance)(DType), DType type, const io::ComputeSettings& compute) {
  const bool single = compute.precision == core::Precision::float32;
  return std::max(tolerance(type), single ? tolerance(DType::float32) : 0);
}

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
