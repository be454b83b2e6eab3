#include "annulus/report/measurements.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"

#include <cstdio>
#include <numeric>

namespace annulus::report {
namespace {

using core::HopMetrics;

/// A quantity, and the function that takes its value from the metrics of one hop or of a sum of hops.
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

void meet(const comm::Communicator& comm, const std::string& where) {
  const comm::Scope scope(where);
  const core::Span span("barrier");
  comm.barrier();
}

}  // namespace

Pass run_pass(const comm::Communicator& comm, const std::string& name,
              const std::function<core::LayerMetrics()>& work) {
  meet(comm, "the barrier before " + name);  // otherwise the time below would include another rank's reading
  const double start = core::wall_seconds();
  Pass pass;
  try {
    const comm::Scope scope(name);
    const core::Span span(name.c_str(), core::SpanKind::pass);
    pass.metrics = work();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    if (comm.size() == 1) throw;
    std::fprintf(stderr, "annulus: error: rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    comm::abort_job(int(core::ErrorKind::failure));
  }
  meet(comm, "the barrier after " + name);
  pass.seconds = core::wall_seconds() - start;
  pass.peak_bytes = core::memory_ledger().peak();
  return pass;
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

store::Column per_rank(const Quantity& quantity, double value, const comm::Communicator& comm) {
  return {quantity.name, quantity.units, quantity.about, "rank", {comm.size()}, comm.gather_to_root({value})};
}

PassMeasurements gather(const Pass& pass, Index predicted_bytes, bool of_layer, const comm::Communicator& comm) {
  const core::LayerMetrics& metrics = pass.metrics;
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

std::optional<store::Column> per_sender(const std::vector<Index>& bytes_from, const comm::Communicator& comm) {
  constexpr int most_ranks = 1024;  // with this many ranks, the table of all pairs takes 8 MiB in the file
  if (comm.size() > most_ranks) return std::nullopt;
  return store::Column{"bytes_from",
                       "bytes",
                       "bytes received from each rank",
                       "rank sender",
                       {comm.size(), comm.size()},
                       comm.gather_to_root(std::vector<double>(bytes_from.begin(), bytes_from.end()))};
}

std::vector<store::Column> columns(const Measurements& measured) {
  std::vector<store::Column> all;
  const auto add = [&](const PassMeasurements& pass, const std::string& group) {
    const std::size_t first = all.size();
    all.insert(all.end(), pass.per_rank.begin(), pass.per_rank.end());
    all.insert(all.end(), pass.per_hop.begin(), pass.per_hop.end());
    if (pass.per_sender) all.push_back(*pass.per_sender);
    for (std::size_t i = first; i < all.size(); ++i) all[i].name = group + all[i].name;
  };
  add(measured.forward, "");
  if (measured.statistics) add(*measured.statistics, "statistics/");
  if (measured.backward) add(*measured.backward, "backward/");
  return all;
}

}  // namespace annulus::report
