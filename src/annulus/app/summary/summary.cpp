#include "annulus/app/summary/summary.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/job.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/print.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using report::Json;
using report::print_line;

/// Makes {name: values} from columns.
Json by_name(const std::vector<store::Column>& columns) {
  Json all = Json::object();
  for (const store::Column& column : columns) all[column.name] = column.values;
  return all;
}

Json shape_entries(const Job& job) {
  const core::Shape s = job.file_shape();
  Json all{{"batch", s.batch},
           {"rows", s.sequence},
           {"query_rows", job.query_rows()},
           {"heads", s.heads},
           {"kv_heads", s.kv_heads},
           {"head_dim", s.head_dim},
           {"value_dim", s.dim_of_values()},
           {"type", core::name_of(job.problem.type)},
           {"output_type", name_of(job.results.front().type)},
           {"documents", job.problem.documents.count()}};
  if (job.layer) all.update(Json{{"width", job.layer->width}, {"sharding", name_of(job.layer->sharding)}});
  return all;
}

Json setting_entries(const Job& job) {
  const pattern::Pattern& pattern = job.problem.pattern;
  std::vector<std::string> segments;
  std::vector<Index> dilations;
  for (const pattern::Pair& pair : pattern.pairs) {
    segments.push_back(pattern::segment_text(pair));
    dilations.push_back(pair.dilation);
  }
  std::vector<std::string_view> statistics;
  for (const runfile::Statistic one : job.run.settings.output.statistics) statistics.push_back(name_of(one));
  return {{"semantics", pattern::name_of(pattern.semantics)},
          {"segments", fmt::format("{}", fmt::join(segments, " "))},
          {"dilations", fmt::format("{}", fmt::join(dilations, " "))},
          {"causal", pattern.causal},
          {"scale", job.problem.scale},
          {"backward", job.problem.gradients},
          {"backend", core::name_of(job.problem.backend)},
          {"precision", core::name_of(job.problem.precision)},
          {"reproducible", job.problem.reproducible},
          {"strategy", name_of_strategy(job)},
          {"chosen_by_auto", job.choice.has_value()},
          {"partition", name_of_partition(job)},
          {"statistics", fmt::format("{}", fmt::join(statistics, " "))},
          {"top_keys", job.problem.statistics.top_keys}};
}

/// Prints rates, balance, traffic and memory of a pass. Each text begins with `prefix`, which names the pass.
void print_pass(const Job& job, const report::PassMeasurements& pass, double flops, int ranks,
                const std::string& prefix) {
  const double cpu = std::max(pass.sum("kernel_cpu_seconds"), 1e-9), wall = std::max(pass.seconds, 1e-9);
  print_line("rate", fmt::format("{}{:.1f} GFLOP, {:.1f} GFLOP/s, {:.1f} GFLOP per CPU second of the kernel", prefix,
                                 1e-9 * flops, 1e-9 * flops / wall, 1e-9 * flops / cpu));
  print_line("balance", fmt::format("{}busiest rank does {:.2f} of the mean work", prefix,
                                    pass.most("kept") * ranks / std::max(pass.sum("kept"), 1.0)));
  const std::string way = job.is_streamed() ? "read" : "received",
                    most = report::describe_bytes(pass.most("bytes_received"));
  const std::string hops =
      job.is_streamed() ? "" : fmt::format(" in {} hop{}", pass.hops - 1, pass.hops == 2 ? "" : "s");
  print_line("traffic", fmt::format("{}{} {} by the busiest rank{}, longest wait {:.3f} s", prefix, most, way, hops,
                                    pass.most("wait_seconds")));
  if (!pass.of("product_flops").empty()) {
    print_line(
        "products",
        fmt::format("{}{:.1f} GFLOP, {:.3f} s at most; {} of weights, gradients and rows received by the busiest rank",
                    prefix, 1e-9 * pass.sum("product_flops"), pass.most("product_seconds"),
                    report::describe_bytes(pass.most("layer_bytes_received"))));
  }
  print_line("memory", fmt::format("{}{} of tensors and buffers on the fullest rank ({} predicted)", prefix,
                                   report::describe_bytes(pass.most("peak_bytes")),
                                   report::describe_bytes(pass.most("predicted_peak_bytes"))));
}

/// Prints "1.5 GiB read, 2.1 GiB/s a rank (slowest 1.9 GiB/s); ...". Ranks that moved no bytes have no rate.
void print_files(const report::Measurements& measured) {
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
    text += fmt::format("{}{} {}, {}/s a rank", text.empty() ? "" : "; ", report::describe_bytes(all), done,
                        report::describe_bytes(sum / ranks));
    if (ranks > 1) text += fmt::format(" (slowest {}/s)", report::describe_bytes(slowest));
  };
  add("read", "read_bytes", "read_seconds");
  add("written", "write_bytes", "write_seconds");
  if (!text.empty()) print_line("files", text);
}

void print_findings(const Job& job, const report::LseFindings& lse) {
  if (lse.keyless > 0) {
    print_line("keys",
               fmt::format("{} of {} query rows (per head) see no key: out = 0, lse = -inf", lse.keyless, lse.rows));
  }
  if (const std::string coarse = coarse_scores(job, lse); !coarse.empty()) print_line("scores", coarse);
}

/// True with layer.sharding tensor: each rank computes all rows of its heads, so attention moves no rows between ranks.
bool shares_heads(const Job& job) { return job.layer && job.layer->sharding == layer::Sharding::tensor; }

}  // namespace

std::string name_of_strategy(const Job& job) {
  return shares_heads(job) ? "single" : std::string(job.strategy->name());
}

std::string describe_strategy(const Job& job) {
  return name_of_strategy(job) + (job.choice && !shares_heads(job) ? " (auto)" : "");
}

std::string name_of_partition(const Job& job) {
  if (shares_heads(job)) return std::string(pattern::name_of(pattern::PartitionKind::contiguous));
  if (job.problem.partition) return std::string(pattern::name_of(*job.problem.partition));
  return std::string(pattern::name_of(strategies::kind_of(job.problem, job.partition)));
}

std::vector<std::pair<std::string, std::string>> decisions(const Job& job) {
  std::vector<std::pair<std::string, std::string>> all{{"strategy", name_of_strategy(job)},
                                                       {"partition", name_of_partition(job)}};
  if (job.slice_count() > 1) all.emplace_back("passes", describe_passes(job));
  return all;
}

Json run_entries(const Job& job, const comm::Communicator& comm) {
  Json all = shape_entries(job);
  all.update(setting_entries(job));
  const bool host = job.problem.backend == kernels::Backend::host;
  all.update(Json{{"ranks", comm.size()},
                  {"threads", core::host_threads()},
                  {"instruction_set", host ? kernels::host_instruction_set() : "device"},
                  {"transfers", comm::transfers()},
                  {"cpu", report::distinct(comm.gather_all(cpu_name()))},
                  {"device", report::distinct(comm.gather_all(core::device_name()))},
                  {"hosts", report::distinct(comm.gather_all(comm::host_name()))},
                  {"version", annulus::version},
                  {"git_commit", annulus::git_commit},
                  {"kokkos", core::kokkos_version()},
                  {"mpi", comm::mpi_library()}});
  return all;
}

Json report_entries(const Job& job, const report::Measurements& measured, const Json& ran) {
  const auto of_pass = [](const report::PassMeasurements& pass) {
    return Json{{"hops", pass.hops},
                {"attention_seconds", pass.seconds},
                {"per_rank", by_name(pass.per_rank)},
                {"per_rank_and_hop", by_name(pass.per_hop)}};
  };
  Json all{
      {"strategy", name_of_strategy(job)}, {"ranks", measured.ranks}, {"settings", ran}, {"passes", job.slice_count()}};
  all.update(of_pass(measured.forward));
  if (measured.statistics) all["statistics"] = of_pass(*measured.statistics);
  if (measured.backward) all["backward"] = of_pass(*measured.backward);
  all["query_rows"] = measured.lse.rows;  // counts each (batch, row, head)
  all["query_rows_without_key"] = measured.lse.keyless;
  all["result"] = job.run.settings.output.file;
  return all;
}

void print_summary(const Job& job, const report::Measurements& measured) {
  core::print("annulus run {}\n", job.run.name);
  print_line("attention", describe_pattern(job.problem));
  print_line("tensors", describe_tensors(job));
  if (job.layer) print_line("layer", describe_layer(job));
  const bool host = job.problem.backend == kernels::Backend::host, is_chosen = job.choice && !shares_heads(job);
  print_line(
      "strategy",
      fmt::format("{} on {}, {}, {} tiles{}", describe_strategy(job), core::how_many(measured.ranks, "rank"),
                  core::device_name(), host ? kernels::host_instruction_set() : "device",
                  host && !job.instruction_set_note.empty() ? fmt::format(" ({})", job.instruction_set_note) : ""));
  if (is_chosen) print_line("auto", job.choice->reason);
  if (shares_heads(job))
    print_line("note",
               "layer.sharding tensor: every rank computes all rows of its heads; the keys "
               "of distribution are not used");
  if (job.slice_count() > 1) print_line("passes", describe_passes(job));
  for (const std::string& note : notes_on(job.problem)) print_line("note", note);
  if (const std::string bits = describe_bits(job); !bits.empty()) print_line("bits", bits);
  if (const auto* library = kernels::library_of(job.problem.backend); library != nullptr)
    print_line(core::name_of(library->backend), library->describe());
  const report::PassMeasurements& forward = measured.forward;
  const auto seconds = [](const char* name, const std::optional<report::PassMeasurements>& pass) {
    return pass ? fmt::format("{:.3f} s {}, ", pass->seconds, name) : "";
  };
  print_line("time", fmt::format("{:.3f} s attention, {}{}{:.3f} s reading, {:.3f} s writing", forward.seconds,
                                 seconds("statistics", measured.statistics), seconds("backward", measured.backward),
                                 measured.read_seconds, measured.write_seconds));
  print_files(measured);
  const auto print = [&](PassKind kind, const report::PassMeasurements& pass, const std::string& prefix) {
    print_pass(job, pass, flops_of(kind, pass.sum("kept"), job.problem.shape), measured.ranks, prefix);
  };
  print(PassKind::forward, forward, "");
  if (measured.statistics) print(PassKind::statistics, *measured.statistics, "statistics: ");
  if (measured.backward) print(PassKind::backward, *measured.backward, "backward: ");
  for (const auto& [name, text] : measured.lines) print_line(name, text);
  print_findings(job, measured.lse);
  const runfile::OutputSettings& output = job.run.settings.output;
  print_line("result", output.writes_file() ? output.file : "none: nothing was written (output.file: none)");
}

}  // namespace annulus::app
