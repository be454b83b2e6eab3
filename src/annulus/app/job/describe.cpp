#include "annulus/app/job/describe.hpp"

#include <sys/utsname.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/report/text.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

/// ", products of 3xbfloat16 by vectors", for example; empty if products have the type of sums.
std::string describe_products(const strategies::Problem& problem) {
  const core::Precision precision = kernels::computed_products(problem.shape, problem.precision, problem.rule.any());
  if (!core::has_own_products(precision)) return "";
  const bool by_vectors = core::is_split(precision) && !core::has_matrix_units();
  return fmt::format(", products of {}{}", core::name_of(precision), by_vectors ? " by vectors" : "");
}

}  // namespace

using strategies::Problem;

std::string describe_pattern(const Problem& problem) {
  const pattern::Pattern& pattern = problem.pattern;
  std::string text = fmt::format("{}{}, {}", pattern::name_of(pattern.semantics), pattern.causal ? ", causal" : "",
                                 core::how_many(pattern.pairs.size(), "pair"));
  for (const pattern::Pair& pair : pattern.pairs)
    text += fmt::format(" ({}, {})", pattern::segment_text(pair), pair.dilation);
  if (problem.rule.has_cap()) text += fmt::format(", softcap {:g}", problem.rule.cap);
  if (problem.rule.has_bias()) text += problem.rule.coordinates ? ", alibi in the plane" : ", alibi";
  if (problem.sink) text += ", sinks";
  if (problem.documents.count() > 1) text += fmt::format(", {} documents", problem.documents.count());
  if (const Index none = pattern::count_in_gaps(problem.documents, {{0, problem.documents.back()}}); none > 0)
    text += fmt::format(", {} of {} rows exist", problem.documents.back() - none, problem.documents.back());
  Index keys = 0;
  for (const core::Interval& one : problem.key_ranges) keys += one.size();
  if (const Index all = Index(problem.key_ranges.size()) * problem.shape.sequence; all > 0)
    text += fmt::format(", {} of {} keys exist", keys, all);
  return text;
}

std::string describe_shape(const Request& request) {
  const core::Shape s = request.file_shape();
  const std::string shared =
      s.kv_heads == s.heads ? "" : fmt::format(" ({})", core::how_many(s.kv_heads, "key/value head"));
  const std::string values = s.has_value_dim() ? fmt::format(" (values of {})", s.value_dim) : "";
  const std::string queries = request.has_own_queries() ? fmt::format(" ({} of queries)", request.query_rows()) : "";
  return fmt::format("{} x {}{}, {} of {}{}{}, {}", s.batch, core::how_many(s.sequence, "row"), queries,
                     core::how_many(s.heads, "head"), s.head_dim, values, shared, core::name_of(request.problem.type));
}

std::string describe_tensors(const Request& request) {
  const std::string axes =
      request.input && !request.layer ? fmt::format(" (axes {})", core::name_of(request.order())) : "";
  return describe_shape(request) + axes + describe_products(request.problem);
}

std::string describe_layer(const Request& request) {
  const layer::LayerProblem& layer = *request.layer;
  const bool biases = std::any_of(layer.biases.begin(), layer.biases.end(), [](bool has) { return has; });
  return fmt::format("width {}{}{}, sharding {}", layer.width,
                     layer.rope ? fmt::format(", rope base {}", *layer.rope) : "", biases ? ", biases" : "",
                     layer::name_of(layer.sharding));
}

std::string title_of(const Request& request) {
  return fmt::format("{} of {}: {}", request.layer ? "attention layer" : "attention", describe_shape(request),
                     describe_pattern(request.problem));
}

std::vector<std::string> notes_on(const Problem& problem) {
  std::vector<std::string> notes;
  Index longest = 0;
  for (std::size_t i = 1; i < problem.documents.size(); ++i) {
    if (problem.documents.is_gap(Index(i) - 1)) continue;
    longest = std::max(longest, problem.documents[i] - problem.documents[i - 1]);
  }
  const std::string what = problem.documents.count() > 1 ? "the longest document, of" : "the";
  for (const pattern::Pair& pair : problem.pattern.pairs) {
    if (pair.segment == pattern::whole_document || pair.segment <= longest) continue;
    notes.push_back(fmt::format("segment {} is longer than {} {} rows: the same as all", pair.segment, what, longest));
  }
  return notes;
}

std::string describe_bits(const Job& job) {
  if (!job.problem.reproducible) return "";
  const std::size_t rounds = strategies::rounds_of(job.problem).size();
  std::string text = fmt::format("the same bits for any number of ranks and threads, in {} pass{}", rounds,
                                 rounds == 1 ? "" : "es, one per pair");
  if (job.problem.granule > 1) {
    const Index unit = job.problem.grid().spacing();
    const bool by_vectors = job.problem.backend == kernels::Backend::host && !core::has_matrix_units();
    text += fmt::format(", {} keys at a time by {}, rows cut {}", job.problem.granule,
                        by_vectors ? "vectors" : "matrix units",
                        unit > job.problem.shape.sequence ? "only between documents"
                                                          : fmt::format("at multiples of {} of a document", unit));
  } else if (job.why_no_granules.empty()) {
    text += fmt::format(", without matrix units: {}", strategies::why_not_by_granules(job.problem));
  }
  return text;
}

std::string describe_blocks(const planner::StreamCut& cut) {
  const bool is_estimate = cut.accuracy == pattern::Accuracy::estimate;
  return fmt::format("{} of {}, units of at most {:.2g} s and {}{}", core::how_many(cut.blocks, "block"),
                     core::how_many(cut.block_rows, "row"), cut.unit_seconds, report::describe_bytes(cut.memory_bytes),
                     is_estimate ? " (estimated)" : "");
}

std::string describe_passes(const Job& job) {
  const auto& [entries, heads] = job.slices;
  return fmt::format("{}, of {} and {} each{}, {} on the fullest rank", job.slice_count(),
                     core::how_many(entries, "batch entry"), core::how_many(heads, "key/value head"),
                     job.reads_ahead ? ", the next one read meanwhile" : "", report::describe_bytes(job.slice_bytes));
}

std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm) {
  const char* const job = std::getenv("SLURM_JOB_ID");
  return {{"software", "annulus"},
          {"version", annulus::version},
          {"git_commit", annulus::git_commit},
          {"date", store::utc_text(std::time(nullptr), "%Y-%m-%dT%H:%M:%SZ")},
          {"command_line", command_line},
          {"hosts", report::distinct(comm.gather_all(comm::host_name()))},
          {"job_id", job != nullptr ? job : ""},
          {"ranks", std::to_string(comm.size())},
          {"mpi", comm::mpi_library()},
          {"kokkos", core::kokkos_version()},
          {"backends", core::kokkos_backends()},
          {"cpu", report::distinct(comm.gather_all(cpu_name()))},
          {"devices", report::distinct(comm.gather_all(core::device_name()))},
          {"instruction_set", std::string(kernels::host_instruction_set())},
          {"transfers", comm::transfers()}};
}

std::vector<std::pair<std::string, std::string>> identity(const std::string& title) {
  return {{"title", title}, {"software", "annulus"}, {"version", annulus::version}};
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "unknown";
}

}  // namespace annulus::app
