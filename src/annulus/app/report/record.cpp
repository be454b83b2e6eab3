#include "annulus/app/report/record.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <set>

#include "annulus/app/job/layer_tensors.hpp"
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

io::Column per_rank(const char* name, const char* unit, double value, const comm::Communicator& comm) {
  return {name, unit, {comm.size()}, comm.gather_to_root({value})};
}

PassMeasurements gather(const Pass& pass, const comm::Communicator& comm) {
  PassMeasurements all;
  all.hops = comm.max(Index(pass.metrics.hops.size()));
  all.seconds = comm.max(pass.seconds);
  std::vector<HopMetrics> hops = pass.metrics.hops;
  hops.resize(std::size_t(all.hops));
  const HopMetrics total = pass.metrics.total();
  for (const HopQuantity& quantity : hop_quantities) {
    all.per_rank.push_back(per_rank(quantity.name, quantity.unit, quantity.value(total), comm));
    std::vector<double> values;
    for (const HopMetrics& hop : hops) values.push_back(quantity.value(hop));
    all.per_hop.push_back(
        {std::string("hop_") + quantity.name, quantity.unit, {comm.size(), all.hops}, comm.gather_to_root(values)});
  }
  all.per_rank.push_back(per_rank("peak_bytes", "byte", double(pass.peak_bytes), comm));
  if (pass.predicted_bytes) {
    all.per_rank.push_back(per_rank("predicted_peak_bytes", "byte", double(*pass.predicted_bytes), comm));
  }
  if (pass.layer) {
    all.per_rank.push_back(per_rank("product_seconds", "s", pass.layer->product_seconds, comm));
    all.per_rank.push_back(per_rank("product_flops", "flop", pass.layer->product_flops, comm));
    all.per_rank.push_back(per_rank("layer_wait_seconds", "s", pass.layer->wait_seconds, comm));
    all.per_rank.push_back(per_rank("layer_bytes_sent", "byte", double(pass.layer->bytes_sent), comm));
    all.per_rank.push_back(per_rank("layer_bytes_received", "byte", double(pass.layer->bytes_received), comm));
  }
  all.per_rank.push_back(per_rank("attention_seconds", "s", pass.seconds, comm));
  return all;
}

std::vector<io::ReportEntry> entries(const std::vector<io::Column>& columns) {
  std::vector<io::ReportEntry> all;
  for (const io::Column& column : columns) all.push_back({column.name, column.values});
  return all;
}

void line(const char* name, const std::string& text) { fmt::print("  {:<10} {}\n", name, text); }

/// What a pass did and what it took; `prefix` tells the passes apart.
void print_pass(const PassMeasurements& pass, double flops, int ranks, const std::string& prefix) {
  const double cpu = std::max(pass.sum("kernel_cpu_seconds"), 1e-9), wall = std::max(pass.seconds, 1e-9);
  line("rate", fmt::format("{}{:.1f} GFLOP, {:.1f} GFLOP/s, {:.1f} GFLOP per CPU second of the kernel", prefix,
                           1e-9 * flops, 1e-9 * flops / wall, 1e-9 * flops / cpu));
  line("balance", fmt::format("{}busiest rank does {:.2f} of the mean work", prefix,
                              pass.most("kept") * ranks / std::max(pass.sum("kept"), 1.0)));
  line("traffic", fmt::format("{}{} received by the busiest rank in {} hop{}, longest wait {:.3f} s", prefix,
                              describe_bytes(pass.most("bytes_received")), pass.hops - 1, pass.hops == 2 ? "" : "s",
                              pass.most("wait_seconds")));
  if (pass.has("product_flops")) {
    line("products",
         fmt::format("{}{:.1f} GFLOP, {:.3f} s at most; {} of weights, gradients and rows received by the busiest rank",
                     prefix, 1e-9 * pass.sum("product_flops"), pass.most("product_seconds"),
                     describe_bytes(pass.most("layer_bytes_received"))));
  }
  const std::string predicted = pass.has("predicted_peak_bytes")
                                    ? fmt::format(" ({} predicted)", describe_bytes(pass.most("predicted_peak_bytes")))
                                    : "";
  line("memory", fmt::format("{}{} of tensors and buffers on the fullest rank{}", prefix,
                             describe_bytes(pass.most("peak_bytes")), predicted));
}

void print_findings(const Job& job, const LseFindings& lse) {
  if (lse.keyless > 0) {
    line("keys", fmt::format("{} of {} query rows (per head) see no key: out = 0, lse = -inf", lse.keyless, lse.rows));
  }
  if (const std::string coarse = coarse_scores(job, lse); !coarse.empty()) line("scores", coarse);
}

}  // namespace

const std::vector<double>& PassMeasurements::of(const std::string& name) const {
  const auto found = std::find_if(per_rank.begin(), per_rank.end(), [&](const auto& c) { return c.name == name; });
  core::require(found != per_rank.end(), [&] { return "no measurement called " + name; });
  return found->values;
}

bool PassMeasurements::has(const std::string& name) const {
  return std::any_of(per_rank.begin(), per_rank.end(), [&](const io::Column& column) { return column.name == name; });
}

double PassMeasurements::sum(const std::string& name) const {
  return std::accumulate(of(name).begin(), of(name).end(), 0.0);
}

double PassMeasurements::most(const std::string& name) const {
  return *std::max_element(of(name).begin(), of(name).end());
}

Measurements gather(const Passes& passes, const comm::Communicator& comm) {
  Measurements all;
  all.ranks = comm.size();
  all.read_seconds = comm.max(passes.read_seconds);
  all.write_seconds = comm.max(passes.write_seconds);
  all.lse = passes.lse;
  all.forward = gather(passes.forward, comm);
  if (passes.backward) all.backward = gather(*passes.backward, comm);
  // What belongs to the run as a whole stands beside the forward pass's numbers.
  std::vector<io::Column>& columns = all.forward.per_rank;
  columns.insert(columns.begin(), per_rank("rows", "row", double(passes.forward.metrics.rows), comm));
  columns.push_back(per_rank("peak_resident_bytes", "byte", double(core::peak_resident_bytes()), comm));
  columns.push_back(per_rank("read_seconds", "s", passes.read_seconds, comm));
  columns.push_back(per_rank("write_seconds", "s", passes.write_seconds, comm));
  return all;
}

std::vector<io::Column> columns(const Measurements& measured) {
  std::vector<io::Column> all;
  const auto add = [&](const PassMeasurements& pass, const std::string& group) {
    for (const auto* columns : {&pass.per_rank, &pass.per_hop}) {
      for (io::Column column : *columns) {
        column.name = group + column.name;
        all.push_back(std::move(column));
      }
    }
  };
  add(measured.forward, "");
  if (measured.backward) add(*measured.backward, "backward/");
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
  const auto of_pass = [](const PassMeasurements& pass) {
    return std::vector<io::ReportEntry>{{"hops", pass.hops},
                                        {"attention_seconds", pass.seconds},
                                        {"per_rank", entries(pass.per_rank)},
                                        {"per_rank_and_hop", entries(pass.per_hop)}};
  };
  std::vector<io::ReportEntry> all{{"strategy", std::string(job.strategy->name())}, {"ranks", Index(measured.ranks)}};
  for (io::ReportEntry& entry : of_pass(measured.forward)) all.push_back(std::move(entry));
  if (measured.backward) all.push_back({"backward", of_pass(*measured.backward)});
  if (measured.lse) {
    all.push_back({"query_rows", measured.lse->rows});  // each (batch, row, head)
    all.push_back({"query_rows_without_key", measured.lse->keyless});
  }
  all.push_back({"result", job.run.settings.output.file});
  return all;
}

void print_summary(const Job& job, const Measurements& measured) {
  const Index head_dim = job.problem.shape.head_dim;
  fmt::print("annulus run {}\n", job.run.name);
  line("attention", describe_pattern(job.problem));
  line("tensors", describe_tensors(job));
  if (job.layer) line("layer", describe_layer(job));
  const bool host = job.problem.backend == kernels::Backend::host;
  line("strategy", fmt::format("{}{} on {} rank{}, {}, {} tiles{}", job.strategy->name(), job.chosen ? " (auto)" : "",
                               measured.ranks, measured.ranks == 1 ? "" : "s", core::device_name(),
                               host ? kernels::host_instruction_set() : "device",
                               host && !job.lesser_tiles.empty() ? fmt::format(" ({})", job.lesser_tiles) : ""));
  if (job.chosen) line("auto", job.reason);
  for (const std::string& note : notes_on(job.problem)) line("note", note);
  if (job.problem.reproducible) line("bits", describe_reproducible(job.problem));
  const PassMeasurements& forward = measured.forward;
  line("time", fmt::format("{:.3f} s attention, {}{:.3f} s reading, {:.3f} s writing", forward.seconds,
                           measured.backward ? fmt::format("{:.3f} s backward, ", measured.backward->seconds) : "",
                           measured.read_seconds, measured.write_seconds));
  print_pass(forward, core::forward_flops(forward.sum("kept"), head_dim), measured.ranks, "");
  if (measured.backward) {
    print_pass(*measured.backward, core::backward_flops(measured.backward->sum("kept"), head_dim), measured.ranks,
               "backward: ");
  }
  if (measured.lse) print_findings(job, *measured.lse);
  line("result", job.run.settings.output.file);
}

std::string job_id() {
  const char* id = std::getenv("SLURM_JOB_ID");
  return id != nullptr ? id : "";
}

}  // namespace annulus::app
