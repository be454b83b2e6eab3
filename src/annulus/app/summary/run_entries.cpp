#include "annulus/app/summary/run_entries.hpp"

#include <algorithm>

#include "annulus/app/job/provenance.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/report/text.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using Entries = std::vector<report::ReportEntry>;

void append(Entries& to, Entries more) {
  for (report::ReportEntry& entry : more) to.push_back(std::move(entry));
}

std::string word(std::string_view text) { return std::string(text); }

void add_shape(const Job& job, Entries& to) {
  const core::Shape s = job.file_shape();
  append(to, {{"batch", s.batch},
              {"rows", s.sequence},
              {"query_rows", job.query_rows()},
              {"heads", s.heads},
              {"kv_heads", s.kv_heads},
              {"head_dim", s.head_dim},
              {"value_dim", s.dim_of_values()},
              {"type", word(core::name_of(job.problem.type))},
              {"output_type", word(name_of(job.results.front().type))},
              {"documents", job.problem.documents.count()}});
  if (job.layer) append(to, {{"width", job.layer->width}, {"sharding", word(name_of(job.layer->sharding))}});
}

void add_settings(const Job& job, Entries& to) {
  const pattern::Pattern& pattern = job.problem.pattern;
  std::vector<std::string> segments, dilations;
  for (const pattern::Pair& pair : pattern.pairs) {
    segments.push_back(pattern::segment_text(pair));
    dilations.push_back(std::to_string(pair.dilation));
  }
  std::vector<std::string_view> statistics;
  for (const runfile::Statistic one : job.run.settings.output.statistics) statistics.push_back(name_of(one));
  append(to, {{"semantics", word(pattern::name_of(pattern.semantics))},
              {"segments", fmt::format("{}", fmt::join(segments, " "))},
              {"dilations", fmt::format("{}", fmt::join(dilations, " "))},
              {"causal", pattern.causal},
              {"scale", job.problem.scale},
              {"backward", job.problem.gradients},
              {"backend", word(core::name_of(job.problem.backend))},
              {"precision", word(core::name_of(job.problem.precision))},
              {"reproducible", job.problem.reproducible},
              {"strategy", word(job.strategy->name())},
              {"chosen_by_auto", job.choice.has_value()},
              {"partition", name_of_partition(job)},
              {"statistics", fmt::format("{}", fmt::join(statistics, " "))},
              {"top_keys", job.problem.statistics.top_keys}});
}

}  // namespace

Entries run_entries(const Job& job, const comm::Communicator& comm) {
  Entries all;
  add_shape(job, all);
  add_settings(job, all);
  const bool host = job.problem.backend == kernels::Backend::host;
  append(all, {{"ranks", Index(comm.size())},
               {"threads", Index(core::host_threads())},
               {"instruction_set", word(host ? kernels::host_instruction_set() : "device")},
               {"transfers", comm::transfers()},
               {"cpu", report::distinct(comm.gather_all(cpu_name()))},
               {"device", report::distinct(comm.gather_all(core::device_name()))},
               {"hosts", report::distinct(comm.gather_all(comm::host_name()))},
               {"version", word(annulus::version)},
               {"git_commit", word(annulus::git_commit)},
               {"kokkos", core::kokkos_version()},
               {"mpi", comm::mpi_library()}});
  return all;
}

std::string name_of_partition(const Job& job) {
  if (job.problem.partition) return word(pattern::name_of(*job.problem.partition));
  return word(pattern::name_of(strategies::kind_of(job.problem, job.partition)));
}

}  // namespace annulus::app
