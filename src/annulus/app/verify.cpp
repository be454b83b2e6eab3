#include "annulus/app/verify.hpp"

#include <cstdio>
#include <filesystem>

#include "annulus/app/verdict.hpp"
#include "annulus/app/verify_gradients.hpp"
#include "annulus/app/verify_layer.hpp"
#include "annulus/app/verify_rows.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::app {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;

/// Datasets of a result of attention alone.
std::vector<ExpectedDataset> expected_datasets(const io::RunFile& run, const VerifyInput& input) {
  const core::Shape& s = input.shape;
  const std::vector<Index> queries{s.batch, s.sequence, s.heads, s.head_dim},
      keys{s.batch, s.sequence, s.kv_heads, s.head_dim};
  std::vector<ExpectedDataset> all{{"out", queries, input.type},
                                   {"lse", {s.batch, s.sequence, s.heads}, core::lse_type(input.type)}};
  if (!run.settings.compute.backward) return all;
  all.push_back({"dq", queries, input.type});
  all.push_back({"dk", keys, input.type});
  all.push_back({"dv", keys, input.type});
  return all;
}

/// Every rank's part of the rows, then of all of them; collective.
std::vector<Verdict> judge(const io::RunFile& run, const VerifyInput& input, const std::vector<Index>& rows,
                           bool& recompute_viewers, const comm::Communicator& comm) {
  const std::string& file = run.settings.output.file;
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

}  // namespace

void check_result(const io::RunFile& run, const std::vector<ExpectedDataset>& datasets) {
  const std::string& file = run.settings.output.file;
  const comm::Blocked inside("the look at " + file);
  if (!std::filesystem::exists(file)) {
    fail(ErrorKind::failure, "{}: there is no result yet, first: annulus run {}", file, run.name);
  }
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
  for (const ExpectedDataset& expected : datasets) {
    const io::DatasetInfo found = io::look_at_dataset(file, expected.name);
    if (found.extents == expected.extents && found.type == expected.type) continue;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) to fit the input", file, expected.name,
         core::name_of(found.type), fmt::join(found.extents, ", "), core::name_of(expected.type),
         fmt::join(expected.extents, ", "));
  }
}

double allowed(double (*tolerance)(DType), DType type, const io::ComputeSettings& compute) {
  const bool single = compute.precision == core::Precision::float32;
  return std::max(tolerance(type), single ? tolerance(DType::float32) : 0);
}

int verify(const VerifyOptions& options, const comm::Communicator& comm) {
  const io::RunFile run = io::read_run_file(options.run_file, options.overrides, comm);
  comm::set_stall_timeout(run.settings.distribution.stall_timeout);
  if (run.settings.layer) return verify_layer(options, comm);
  const bool backward = run.settings.compute.backward;
  const AttentionInput input(run.settings.input, backward, comm);
  const std::string& file = run.settings.output.file;
  io::on_root(comm, [&] { check_result(run, expected_datasets(run, input)); });

  const std::vector<Index> rows =
      sample_rows(reference_pattern(run.settings.attention, input), input.shape.sequence, options.rows);
  bool recompute_viewers = false;
  const std::vector<Verdict> verdicts = judge(run, input, rows, recompute_viewers, comm);
  const bool good = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.good(); });
  if (comm.is_root()) {
    std::printf("%s against the definition in float64: %zu of %lld rows, all %lld heads, %lld batch entr%s\n",
                file.c_str(), rows.size(), static_cast<long long>(input.shape.sequence),
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
