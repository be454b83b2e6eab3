// `annulus verify`: recomputes sampled rows of a result by the definition, in float64.
#include "annulus/verify/verify.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/core/print.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/verify/result.hpp"

namespace annulus::app {
namespace {

struct Given {
  RunFileArguments words;
  Index rows = 64;  ///< number of sampled rows; each is checked in all heads and batch entries
};

/// Prints the error of each dataset. Returns 0, or 3 if an error is above the tolerance.
int verify(const Given& given, const comm::Communicator& comm) {
  const Request request = read_request(given.words, Purpose::verify, comm);
  const store::InspectedFile result = verify::open_result(request.run, request.results, comm);
  report::ProgressLine line(comm.is_root(), {double(given.rows), "row"});
  verify::Sample sample{verify::rows_in(result, request.file_shape().sequence),
                        &result,
                        request.run.settings.compute.gradients,
                        given.rows,
                        {}};
  sample.progress = line.shown();
  sample.statistics = request.problem.statistics;
  const verify::Findings findings = compare_with_definition(request, sample, comm);
  line.clear();
  const bool good = findings.good();
  if (comm.is_root()) {
    core::print("{} against {}\n", result.path, findings.scope);
    std::size_t width = 4;
    for (const verify::Verdict& verdict : findings.verdicts) width = std::max(width, verdict.name.size());
    for (const verify::Verdict& verdict : findings.verdicts) {
      const std::string& where = verdict.deviation.where;
      core::print("  {:<{}}  error {:<9.3g} tolerance {:<9.3g} {}{}\n", verdict.name, width,
                  verdict.deviation.relative(), verdict.tolerance, verdict.good() ? "ok" : "WRONG",
                  where.empty() ? "" : ", largest at " + where);
    }
    for (const std::string& note : findings.notes) core::print("  {}\n", note);
    core::print("  {}  (error: max |difference| / max(1, max |reference|))\n",
                good ? "within tolerance" : "OUTSIDE TOLERANCE");
  }
  return good ? 0 : int(core::ErrorKind::verification);
}

}  // namespace

Verb verify_verb() {
  const auto given = std::make_shared<Given>();
  return {.name = "verify",
          .does = "Recompute sampled rows of a result by the definition, in float64",
          .example = "annulus verify my.yaml --rows 128",
          .options = {run_file(given->words.file, "The run file of the result"),
                      overrides(given->words.overrides, "The same overrides as were given to run"),
                      whole("--rows", given->rows, {1}, "Rows to check, all heads of each")},
          .run = [given](const comm::Communicator& comm, const std::string&) { return verify(*given, comm); }};
}

}  // namespace annulus::app
