#include "annulus/app/report/record.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <set>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/passes.hpp"
#include "annulus/app/report/run_entries.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/cudnn/attend.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using core::HopMetrics;

/// How to read a quantity from a hop (or a sum of hops).
struct HopQuantity {
  Quantity quantity;
  double (*value)(const HopMetrics&);
};
constexpr HopQuantity hop_quantities[] = {
    {{"compute_seconds", "s", "wall time in the attention kernel"},
     [](const HopMetrics& h) { return h.compute_seconds; }},
    {{"kernel_cpu_seconds", "s", "CPU time of all threads in the attention kernel"},
     [](const HopMetrics& h) { return h.kernel_cpu_seconds; }},
    {{"wait_seconds", "s", "wall time waiting for messages"}, [](const HopMetrics& h) { return h.wait_seconds; }},
    {{"bytes_sent", "bytes", "bytes sent"}, [](const HopMetrics& h) { return double(h.bytes_sent); }},
    {{"bytes_received", "bytes", "bytes received"}, [](const HopMetrics& h) { return double(h.bytes_received); }},
    {{"rows_received", "1", "rows received"}, [](const HopMetrics& h) { return double(h.rows_received); }},
    {{"kept", "1", "kept (query, key, head) triples"}, [](const HopMetrics& h) { return double(h.kept); }},
};

std::vector<io::ReportEntry> entries(const std::vector<io::Column>& columns) {
  std::vector<io::ReportEntry> all;
  for (const io::Column& column : columns) all.push_back({column.name, column.values});
  return all;
}

/// What a pass did and what it took; `prefix` tells the passes apart.
void print_pass(const Job& job, const PassMeasurements& pass, double flops, int ranks, const std::string& prefix) {
  const double cpu = std::max(pass.sum("kernel_cpu_seconds"), 1e-9), wall = std::max(pass.seconds, 1e-9);
  print_line("rate", fmt::format("{}{:.1f} GFLOP, {:.1f} GFLOP/s, {:.1f} GFLOP per CPU second of the kernel", prefix,
                                 1e-9 * flops, 1e-9 * flops / wall, 1e-9 * flops / cpu));
  print_line("balance", fmt::format("{}busiest rank does {:.2f} of the mean work", prefix,
                                    pass.most("kept") * ranks / std::max(pass.sum("kept"), 1.0)));
  const std::string way = job.is_streamed() ? "read" : "received", most = describe_bytes(pass.most("bytes_received"));
  const std::string hops =
      job.is_streamed() ? "" : fmt::format(" in {} hop{}", pass.hops - 1, pass.hops == 2 ? "" : "s");
  print_line("traffic", fmt::format("{}{} {} by the busiest rank{}, longest wait {:.3f} s", prefix, most, way, hops,
                                    pass.most("wait_seconds")));
  if (!pass.of("product_flops").empty()) {
    print_line(
        "products",
        fmt::format("{}{:.1f} GFLOP, {:.3f} s at most; {} of weights, gradients and rows received by the busiest rank",
                    prefix, 1e-9 * pass.sum("product_flops"), pass.most("product_seconds"),
                    describe_bytes(pass.most("layer_bytes_received"))));
  }
  print_line("memory",
             fmt::format("{}{} of tensors and buffers on the fullest rank ({} predicted)", prefix,
                         describe_bytes(pass.most("peak_bytes")), describe_bytes(pass.most("predicted_peak_bytes"))));
}

/// "1.5 GiB read, 2.1 GiB/s a rank, the slowest 1.9; ...": rates of ranks that have moved bytes.
void print_files(const Measurements& measured) {
  std::string text;
  const auto add = [&](const char* done, const std::string& bytes_column, const std::string& seconds_column) {
    const std::vector<double> bytes = measured.forward.of(bytes_column), seconds = measured.forward.of(seconds_column);
    double all = 0, slowest = 0, sum = 0;
    int ranks = 0;
    for (std::size_t p = 0; p < bytes.size(); ++p) {
      if (bytes[p] == 0 || seconds[p] <= 0) continue;
      const double rate = bytes[p] / seconds[p];
      all += bytes[p];
      sum += rate;
      slowest = ranks++ == 0 ? rate : std::min(slowest, rate);
    }
    if (ranks == 0) return;
    text += fmt::format("{}{} {}, {}/s a rank", text.empty() ? "" : "; ", describe_bytes(all), done,
                        describe_bytes(sum / ranks));
    if (ranks > 1) text += fmt::format(" (slowest {}/s)", describe_bytes(slowest));
  };
  add("read", "read_bytes", "read_seconds");
  add("written", "write_bytes", "write_seconds");
  if (!text.empty()) print_line("files", text);
}

void print_findings(const Job& job, const LseFindings& lse) {
  if (lse.keyless > 0) {
    print_line("keys",
               fmt::format("{} of {} query rows (per head) see no key: out = 0, lse = -inf", lse.keyless, lse.rows));
  }
  if (const std::string coarse = coarse_scores(job, lse); !coarse.empty()) print_line("scores", coarse);
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<double> PassMeasurements::of(const std::string& name) const {
  const auto found = std::find_if(per_rank.begin(), per_rank.end(), [&](const auto& c) { return c.name == name; });
  return found == per_rank.end() ? std::vector<double>() : found->values;
}

double PassMeasurements::sum(const std::string& name) const {
  const std::vector<double> values = of(name);
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double PassMeasurements::most(const std::string& name) const {
  const std::vector<double> values = of(name);
  return *std::max_element(values.begin(), values.end());
}

io::Column per_rank(const Quantity& quantity, double value, const comm::Communicator& comm) {
  return {quantity.name, quantity.units, quantity.about, "rank", {comm.size()}, comm.gather_to_root({value})};
}

PassMeasurements gather(const Pass& pass, Index predicted_bytes, bool of_layer, const comm::Communicator& comm) {
  const layer::LayerMetrics& metrics = pass.metrics;
  PassMeasurements all;
  all.hops = comm.max(Index(metrics.attention.hops.size()));
  all.seconds = comm.max(pass.seconds);
  std::vector<HopMetrics> hops = metrics.attention.hops;
  hops.resize(std::size_t(all.hops));
  const auto add = [&](const Quantity& quantity, double value) {
    all.per_rank.push_back(per_rank(quantity, value, comm));
  };
  for (const auto& [quantity, value] : hop_quantities) {
    add(quantity, value(metrics.attention.total()));
    std::vector<double> values;
    for (const HopMetrics& hop : hops) values.push_back(value(hop));
    all.per_hop.push_back({std::string("hop_") + quantity.name,
                           quantity.units,
                           quantity.about,
                           "rank hop",
                           {comm.size(), all.hops},
                           comm.gather_to_root(values)});
  }
  add({"peak_bytes", "bytes", "peak of tensors and buffers"}, double(pass.peak_bytes));
  add({"predicted_peak_bytes", "bytes", "peak of tensors and buffers, as planned"}, double(predicted_bytes));
  if (of_layer) {
    add({"product_seconds", "s", "wall time in matrix products"}, metrics.product_seconds);
    add({"product_flops", "1", "floating-point operations of matrix products"}, metrics.product_flops);
    add({"layer_wait_seconds", "s", "wall time waiting for weights, gradients and rows"}, metrics.wait_seconds);
    add({"layer_bytes_sent", "bytes", "bytes of weights, gradients and rows sent"}, double(metrics.bytes_sent));
    add({"layer_bytes_received", "bytes", "bytes of weights, gradients and rows received"},
        double(metrics.bytes_received));
  }
  add({"attention_seconds", "s", "wall time of the pass"}, pass.seconds);
  return all;
}

std::optional<io::Column> per_sender(const std::vector<Index>& bytes_from, const comm::Communicator& comm) {
  constexpr int most_ranks = 1024;  // 8 MiB in the file
  if (comm.size() > most_ranks) return std::nullopt;
  return io::Column{"bytes_from",
                    "bytes",
                    "bytes received from each rank",
                    "rank sender",
                    {comm.size(), comm.size()},
                    comm.gather_to_root(std::vector<double>(bytes_from.begin(), bytes_from.end()))};
}

std::vector<io::Column> columns(const Measurements& measured) {
  std::vector<io::Column> all;
  const auto add = [&](const PassMeasurements& pass, const std::string& group) {
    const auto add_one = [&](io::Column column) {
      column.name = group + column.name;
      all.push_back(std::move(column));
    };
    for (const auto* columns : {&pass.per_rank, &pass.per_hop}) {
      for (const io::Column& column : *columns) add_one(column);
    }
    if (pass.per_sender) add_one(*pass.per_sender);
  };
  add(measured.forward, "");
  if (measured.statistics) add(*measured.statistics, "statistics/");
  if (measured.backward) add(*measured.backward, "backward/");
  return all;
}

std::vector<std::pair<std::string, std::string>> identity(const std::string& title) {
  return {{"title", title}, {"software", "annulus"}, {"version", annulus::version}};
}

std::vector<std::pair<std::string, std::string>> decisions(const Job& job) {
  std::vector<std::pair<std::string, std::string>> all{{"strategy", std::string(job.strategy->name())},
                                                       {"partition", name_of_partition(job)}};
  if (job.slice_count() > 1) all.emplace_back("passes", describe_passes(job));
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
          {"cpu", distinct(comm.gather_all(cpu_name()))},
          {"devices", distinct(comm.gather_all(core::device_name()))},
          {"instruction_set", std::string(kernels::host_instruction_set())},
          {"transfers", comm::transfers()}};
}

std::vector<io::ReportEntry> report(const Job& job, const Measurements& measured, std::vector<io::ReportEntry> ran) {
  const auto of_pass = [](const PassMeasurements& pass) {
    return std::vector<io::ReportEntry>{{"hops", pass.hops},
                                        {"attention_seconds", pass.seconds},
                                        {"per_rank", entries(pass.per_rank)},
                                        {"per_rank_and_hop", entries(pass.per_hop)}};
  };
  std::vector<io::ReportEntry> all{
      {"strategy", std::string(job.strategy->name())}, {"ranks", Index(measured.ranks)}, {"settings", std::move(ran)}};
  all.push_back({"passes", job.slice_count()});
  for (io::ReportEntry& entry : of_pass(measured.forward)) all.push_back(std::move(entry));
  if (measured.statistics) all.push_back({"statistics", of_pass(*measured.statistics)});
  if (measured.backward) all.push_back({"backward", of_pass(*measured.backward)});
  all.push_back({"query_rows", measured.lse.rows});  // each (batch, row, head)
  all.push_back({"query_rows_without_key", measured.lse.keyless});
  all.push_back({"result", job.run.settings.output.file});
  return all;
}

void print_summary(const Job& job, const Measurements& measured) {
  const Index head_dim = job.problem.shape.head_dim;
  fmt::print("annulus run {}\n", job.run.name);
  print_line("attention", describe_pattern(job.problem));
  print_line("tensors", describe_tensors(job));
  if (job.layer) print_line("layer", describe_layer(job));
  const bool host = job.problem.backend == kernels::Backend::host;
  print_line("strategy",
             fmt::format(
                 "{}{} on {} rank{}, {}, {} tiles{}", job.strategy->name(), job.choice ? " (auto)" : "", measured.ranks,
                 measured.ranks == 1 ? "" : "s", core::device_name(), host ? kernels::host_instruction_set() : "device",
                 host && !job.instruction_set_note.empty() ? fmt::format(" ({})", job.instruction_set_note) : ""));
  if (job.choice) print_line("auto", job.choice->reason);
  if (job.slice_count() > 1) print_line("passes", describe_passes(job));
  for (const std::string& note : notes_on(job.problem)) print_line("note", note);
  if (const std::string bits = describe_bits(job); !bits.empty()) print_line("bits", bits);
  if (job.problem.backend == kernels::Backend::cudnn) print_line("cudnn", kernels::cudnn::describe_shares());
  const PassMeasurements& forward = measured.forward;
  const auto seconds = [](const char* name, const std::optional<PassMeasurements>& pass) {
    return pass ? fmt::format("{:.3f} s {}, ", pass->seconds, name) : "";
  };
  print_line("time", fmt::format("{:.3f} s attention, {}{}{:.3f} s reading, {:.3f} s writing", forward.seconds,
                                 seconds("statistics", measured.statistics), seconds("backward", measured.backward),
                                 measured.read_seconds, measured.write_seconds));
  print_files(measured);
  const auto print = [&](PassKind kind, const PassMeasurements& pass, const std::string& prefix) {
    print_pass(job, pass, flops_of(kind, pass.sum("kept"), head_dim), measured.ranks, prefix);
  };
  print(PassKind::forward, forward, "");
  if (measured.statistics) print(PassKind::statistics, *measured.statistics, "statistics: ");
  if (measured.backward) print(PassKind::backward, *measured.backward, "backward: ");
  for (const auto& [name, text] : measured.lines) print_line(name, text);
  print_findings(job, measured.lse);
  const io::OutputSettings& output = job.run.settings.output;
  print_line("result", output.writes_file() ? output.file : "none: nothing was written (output.file: none)");
}

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

std::string job_id() {
  const char* id = std::getenv("SLURM_JOB_ID");
  return id != nullptr ? id : "";
}

}  // namespace annulus::app
