#include "annulus/app/record.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <set>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using core::HopMetrics;

/// A measured number: its name and unit in /run, and how to read it from a hop (or a sum of hops).
struct HopQuantity {
  const char* name;
  const char* unit;
  double (*value)(const HopMetrics&);
};
constexpr HopQuantity hop_quantities[] = {
    {"compute_seconds", "s", [](const HopMetrics& h) { return h.compute_seconds; }},
    {"kernel_cpu_seconds", "s", [](const HopMetrics& h) { return h.kernel_cpu_seconds; }},
    {"wait_seconds", "s", [](const HopMetrics& h) { return h.wait_seconds; }},
    {"bytes_sent", "byte", [](const HopMetrics& h) { return double(h.bytes_sent); }},
    {"bytes_received", "byte", [](const HopMetrics& h) { return double(h.bytes_received); }},
    {"rows_received", "row", [](const HopMetrics& h) { return double(h.rows_received); }},
    {"kept", "(query, key, head) triple", [](const HopMetrics& h) { return double(h.kept); }},
};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// The ranks' words, each once, in order of appearance.
std::string distinct(const std::vector<std::string>& words) {
  std::set<std::string> seen;
  std::string text;
  for (const std::string& word : words) {
    if (!seen.insert(word).second) continue;
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace

const std::vector<double>& Measurements::of(const std::string& name) const {
  const auto found = std::find_if(per_rank.begin(), per_rank.end(), [&](const auto& c) { return c.name == name; });
  core::require(found != per_rank.end(), [&] { return "no measurement called " + name; });
  return found->values;
}

Measurements gather(const Job& job, const core::RankMetrics& metrics, const Times& times,
                    const comm::Communicator& comm) {
  Measurements all;
  all.ranks = comm.size();
  all.hops = comm.max(Index(metrics.hops.size()));
  all.slowest = {comm.max(times.read), comm.max(times.attention), comm.max(times.write)};
  std::vector<HopMetrics> hops = metrics.hops;
  hops.resize(std::size_t(all.hops));
  const HopMetrics total = metrics.total();
  const Index predicted = job.strategy->predict(job.problem, job.partition, comm.rank()).memory_bytes;

  const auto add = [&](const char* name, const char* unit, double value) {
    all.per_rank.push_back({name, unit, {all.ranks}, comm.gather_to_root({value})});
  };
  add("rows", "row", double(metrics.rows));
  for (const HopQuantity& quantity : hop_quantities) {
    add(quantity.name, quantity.unit, quantity.value(total));
    std::vector<double> values;
    for (const HopMetrics& hop : hops) values.push_back(quantity.value(hop));
    all.per_hop.push_back(
        {std::string("hop_") + quantity.name, quantity.unit, {all.ranks, all.hops}, comm.gather_to_root(values)});
  }
  add("peak_bytes", "byte", double(core::memory_ledger().peak()));
  add("predicted_peak_bytes", "byte", double(predicted));
  add("peak_resident_bytes", "byte", double(core::peak_resident_bytes()));
  add("read_seconds", "s", times.read);
  add("attention_seconds", "s", times.attention);
  add("write_seconds", "s", times.write);
  return all;
}

std::vector<io::Column> columns(const Measurements& measured) {
  std::vector<io::Column> all = measured.per_rank;
  all.insert(all.end(), measured.per_hop.begin(), measured.per_hop.end());
  return all;
}

std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm) {
  return {{"software", "annulus"},
          {"version", annulus::version},
          {"git_commit", annulus::git_commit},
          {"date", utc_now()},
          {"command_line", command_line},
          {"hosts", distinct(comm.gather_all(comm::host_name()))},
          {"job_id", job_id()},
          {"ranks", std::to_string(comm.size())},
          {"mpi", comm::mpi_library()},
          {"kokkos", core::kokkos_version()},
          {"backends", core::kokkos_backends()},
          {"devices", distinct(comm.gather_all(core::device_name()))},
          {"instruction_set", std::string(kernels::host_instruction_set())},
          {"transfers", comm::transfers()}};
}

std::vector<io::ReportEntry> report(const Job& job, const Measurements& measured) {
  std::vector<io::ReportEntry> ranks, hops;
  for (const io::Column& column : measured.per_rank) ranks.push_back({column.name, column.values});
  for (const io::Column& column : measured.per_hop) hops.push_back({column.name, column.values});
  return {{"strategy", std::string(job.strategy->name())},
          {"ranks", Index(measured.ranks)},
          {"hops", measured.hops},
          {"attention_seconds", measured.slowest.attention},
          {"per_rank", ranks},
          {"per_rank_and_hop", hops},
          {"result", job.run.settings.output.file}};
}

void print_summary(const Job& job, const Measurements& measured) {
  const auto sum = [&](const char* name) {
    const auto& values = measured.of(name);
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const auto most = [&](const char* name) {
    const auto& values = measured.of(name);
    return *std::max_element(values.begin(), values.end());
  };
  const double flops = core::forward_flops(Index(sum("kept")), job.problem.shape.head_dim);
  const double cpu = std::max(sum("kernel_cpu_seconds"), 1e-9), wall = std::max(measured.slowest.attention, 1e-9);
  const auto line = [](const char* name, const std::string& text) { fmt::print("  {:<10} {}\n", name, text); };
  fmt::print("annulus run {}\n", job.run.name);
  line("attention", describe_pattern(job.problem));
  line("tensors", describe_shape(job.problem));
  line("strategy",
       fmt::format("{}{} on {} rank{}, {}, {} tiles", job.strategy->name(), job.chosen ? " (auto)" : "", measured.ranks,
                   measured.ranks == 1 ? "" : "s", core::device_name(),
                   job.problem.backend == kernels::Backend::host ? kernels::host_instruction_set() : "device"));
  if (job.chosen) line("auto", job.reason);
  line("time", fmt::format("{:.3f} s attention, {:.3f} s reading, {:.3f} s writing", measured.slowest.attention,
                           measured.slowest.read, measured.slowest.write));
  line("rate", fmt::format("{:.1f} GFLOP, {:.1f} GFLOP/s, {:.1f} GFLOP per CPU second of the kernel", 1e-9 * flops,
                           1e-9 * flops / wall, 1e-9 * flops / cpu));
  line("balance", fmt::format("busiest rank does {:.2f} of the mean work",
                              most("kept") * measured.ranks / std::max(sum("kept"), 1.0)));
  line("traffic", fmt::format("{} received by the busiest rank in {} hop{}, longest wait {:.3f} s",
                              describe_bytes(most("bytes_received")), measured.hops - 1, measured.hops == 2 ? "" : "s",
                              most("wait_seconds")));
  line("memory", fmt::format("{} of tensors and buffers on the fullest rank ({} predicted)",
                             describe_bytes(most("peak_bytes")), describe_bytes(most("predicted_peak_bytes"))));
  line("result", job.run.settings.output.file);
}

std::string job_id() {
  const char* id = std::getenv("SLURM_JOB_ID");
  return id != nullptr ? id : "";
}

}  // namespace annulus::app
