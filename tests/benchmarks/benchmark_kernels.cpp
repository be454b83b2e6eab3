// The kernels alone, those of the host and the portable ones of teams: forward and backward on one dense head after
// another, in GFLOP per CPU-second (4 D flops per kept (query, key, head) triple forward, 10 D backward). Beside each
// stands the processor's multiply-add peak, measured with it.
//
//   OMP_NUM_THREADS=1 build/test/tests/benchmarks/benchmark_kernels --benchmark_filter=^backward/float32
//     (--benchmark_repetitions=5 --benchmark_enable_random_interleaving=true: medians of interleaved runs)
//
// team_forward and team_backward are the kernels of teams: --benchmark_filter=forward/float32/n:1024/D:64 compares.
// statistics/...: costs of statistics, as shares of the CPU time of the forward pass measured in turn with them: what
// entropy adds to it, and the separate passes for received attention, without and with the 8 largest weights.
// scores/...: times with ALiBi and with softcap, as multiples of those of plain scores, forward and backward.
// bfloat16_products in place of bfloat16: products of bfloat16; float32_by_6xbfloat16 and others: numbers in parts. The
// peak is that of the instruction for these products.
// .../r:8/hops:4/full: rows 0, 8, 16, ... of a sequence 8 times as long, keys in 4 calls; full: not causal.
// in_blocks_backward: gradients in blocks of rows, as a run with reproducible: true makes them (GradientViews).
// gradient_error/...: the error of dk and dv in float32, max |difference from float64| / max(|float64|, 1), in one
// call, and with the rows in eight calls that continue each other's blocks. Up to 8,192 rows it is a mean over ten
// draws of the tensors. tools/peers/gradient_error.py measures PyTorch's.
// ANNULUS_INSTRUCTION_SET bounds the set as it does for the program.
// Columns: gflop_per_cpu_s, the kernel; peak, the multiply-add peak of as many threads; share = gflop_per_cpu_s / peak.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "annulus/core/instruction_set.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/multiply_add_peak.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/statistics.hpp"
#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::benchmarks {
namespace {

using core::DType;
using core::Index;
using kernels::Backend;
using test::DeviceTensor;

struct Case {
  Backend backend;
  bool backward;
  DType type;
  Index n, heads, head_dim;
  bool causal;
  /// float32 means the default (float64 for tensors of float64). Other values mean what they mean in run files.
  core::Precision products = core::Precision::float32;
  Index dilation = 1;      ///< rows 0, dilation, 2 dilation, ... of `stored()` rows
  Index hops = 1;          ///< number of calls, each with an equal part of the keys
  bool in_blocks = false;  ///< GradientViews::begun_dk
  bool exact = false;      ///< in float64, whatever the tensors are stored as
  std::uint64_t seed = 1;  ///< of the tensors' numbers
  kernels::CallRule rule = {};

  Index stored() const { return n * dilation; }
  core::Shape shape() const { return {1, stored(), heads, heads, head_dim}; }
  double scale() const { return 1 / std::sqrt(double(head_dim)); }
  core::Precision precision() const {
    if (core::has_own_products(products)) return products;
    return exact ? core::Precision::float64 : core::default_precision(type);
  }
  DType sums() const { return precision() == core::Precision::float64 ? DType::float64 : DType::float32; }
  double flops() const {
    const double kept = causal ? 0.5 * double(n) * double(n + 1) : double(n) * double(n);
    return (backward ? 10 : 4) * double(head_dim) * kept * double(heads);
  }
  std::vector<core::WorkList> calls() const {
    const Index keys = n / hops;
    std::vector<core::WorkList> all;
    for (Index hop = 0; hop < hops; ++hop) {
      core::WorkList& list = all.emplace_back();
      list.runs = {{0, 0, dilation, n}, {hop * keys, hop * keys * dilation, dilation, keys}};
      core::WorkItem item;
      item.query = {0, 1, n};
      item.key = {1, 1, keys};
      item.band = causal ? core::Band::upto : core::Band::all;
      for (item.kv_head = 0; item.kv_head < heads; ++item.kv_head) {
        item.head_first = item.kv_head;
        list.items.push_back(item);
      }
    }
    return all;
  }
};

/// Everything one case needs; made once, used in every iteration.
struct Tensors {
  explicit Tensors(const Case& c)
      : q(random(c, core::TensorId::q)),
        k(random(c, core::TensorId::k)),
        v(random(c, core::TensorId::v)),
        dout(random(c, core::TensorId::dout)),
        out(zeros(c, c.type, c.head_dim)),
        lse(zeros(c, core::lse_type(c.type), 1)),
        normalizers(zeros(c, c.sums(), kernels::normalizer_numbers)),
        delta(zeros(c, c.sums(), 1)),
        dq(zeros(c, c.sums(), c.head_dim)),
        dk(zeros(c, c.sums(), c.head_dim)),
        dv(zeros(c, c.sums(), c.head_dim)),
        begun_dk(zeros(c, c.sums(), c.head_dim)),
        begun_dv(zeros(c, c.sums(), c.head_dim)),
        state(c.shape(), c.stored(), c.precision()) {}

  static DeviceTensor random(const Case& c, core::TensorId tensor) {
    return test::to_device(test::random_values(tensor, c.stored() * c.heads * c.head_dim, c.type, c.seed), c.type,
                           c.stored(), c.heads, c.head_dim);
  }
  static DeviceTensor zeros(const Case& c, DType type, Index width) {
    return test::to_device(std::vector<double>(std::size_t(c.stored() * c.heads * width), 0.0), type, c.stored(),
                           c.heads, width);
  }
  DeviceTensor q, k, v, dout, out, lse, normalizers, delta, dq, dk, dv, begun_dk, begun_dv;
  kernels::State state;
};

using Calls = std::vector<core::WorkList>;

void attend_once(const Case& c, const Calls& calls, Tensors& t, bool finish) {
  kernels::State& state = t.state;
  state.clear();
  for (const core::WorkList& work : calls)
    kernels::attend(c.backend, work, {t.q.view, t.k.view, t.v.view, c.scale(), c.rule}, state);
  if (finish) kernels::finish(c.backend, state, {t.out.view, t.lse.view, t.normalizers.view});
}

void differentiate_once(const Case& c, const Calls& calls, const Tensors& t) {
  kernels::BackwardOperands operands{.q = t.q.view,
                                     .k = t.k.view,
                                     .v = t.v.view,
                                     .dout = t.dout.view,
                                     .normalizers = t.normalizers.view,
                                     .delta = t.delta.view,
                                     .scale = c.scale()};
  operands.rule = c.rule;
  kernels::GradientViews gradients{t.dq.view, t.dk.view, t.dv.view};
  if (c.in_blocks) gradients = {t.dq.view, t.dk.view, t.dv.view, t.begun_dk.view, t.begun_dv.view};
  for (const core::WorkList& work : calls)
    kernels::attend_backward(c.backend, work, c.shape(), c.stored(), c.precision(), operands, gradients);
}

void run(benchmark::State& state, const Case& c) {
  Tensors tensors(c);
  const Calls work = c.calls();
  const auto peak = [&] { return kernels::multiply_add_peak(c.precision()); };
  attend_once(c, work, tensors, true);
  if (c.backward) {
    kernels::backward_delta(c.backend, c.shape(), c.stored(), tensors.out.view, tensors.dout.view, {},
                            tensors.delta.view);
    differentiate_once(c, work, tensors);
  }
  double before = peak(), spent = 0;
  for (auto _ : state) {
    const double start = core::cpu_seconds();
    if (c.backward)
      differentiate_once(c, work, tensors);
    else
      attend_once(c, work, tensors, false);
    spent += core::cpu_seconds() - start;
  }
  const double rate = c.flops() * double(state.iterations()) / spent * 1e-9, most = (before + peak()) / 2;
  state.counters["gflop_per_cpu_s"] = rate;
  state.counters["peak"] = most;
  state.counters["share"] = rate / most;
}

/// dk and dv of a case, from zero, in `parts` calls with equal numbers of rows.
std::array<std::vector<double>, 2> key_gradients(const Case& c, Index parts) {
  const Tensors t(c);
  kernels::State& state = const_cast<kernels::State&>(t.state);
  const Calls whole = c.calls();
  for (const core::WorkList& work : whole)
    kernels::attend(c.backend, work, {t.q.view, t.k.view, t.v.view, c.scale()}, state);
  kernels::finish(c.backend, state, {t.out.view, t.lse.view, t.normalizers.view});
  kernels::backward_delta(c.backend, c.shape(), c.stored(), t.out.view, t.dout.view, {}, t.delta.view);
  Calls calls;
  for (Index part = 0; part < parts; ++part) {
    core::WorkList& list = calls.emplace_back(whole[0]);
    const Index begin = part * c.n / parts, end = (part + 1) * c.n / parts;
    list.runs[0] = {begin, begin * c.dilation, c.dilation, end - begin};
    for (core::WorkItem& item : list.items) item.query.count = end - begin;
  }
  differentiate_once(c, calls, t);
  const Index count = c.stored() * c.heads * c.head_dim;
  std::array<std::vector<double>, 2> gradients{test::from_device(t.dk.buffer, count, c.sums()),
                                               test::from_device(t.dv.buffer, count, c.sums())};
  const std::array begun{test::from_device(t.begun_dk.buffer, count, c.sums()),
                         test::from_device(t.begun_dv.buffer, count, c.sums())};
  for (std::size_t i = 0; i < 2; ++i)
    std::transform(gradients[i].begin(), gradients[i].end(), begun[i].begin(), gradients[i].begin(), std::plus<>());
  return gradients;
}

void run_error(benchmark::State& state, Case c) {
  const int draws = c.n <= 8192 ? 10 : 1;
  for (auto _ : state) {
    for (c.seed = 1; c.seed <= std::uint64_t(draws); ++c.seed) {
      Case exact = c, in_blocks = c;
      exact.exact = in_blocks.in_blocks = true;
      const auto truth = key_gradients(exact, 1), found = key_gradients(c, 1), cut = key_gradients(in_blocks, 8);
      const char* const names[] = {"dk", "dv"};
      for (std::size_t i = 0; i < 2; ++i) {
        state.counters[names[i]] += test::error_of(found[i], truth[i]) / draws;
        state.counters[fmt::format("{}_in_blocks", names[i])] += test::error_of(cut[i], truth[i]) / draws;
      }
    }
  }
}

void register_errors() {
  for (const Backend backend : {Backend::host, Backend::device}) {
    for (const Index n : {1024, 8192, 65536}) {
      for (const bool causal : {false, true}) {
        const Case c{backend, true, DType::float32, n, 1, 64, causal};
        const std::string name = fmt::format("{}gradient_error/float32/n:{}/D:64/{}",
                                             backend == Backend::host ? "" : "team_", n, causal ? "causal" : "full");
        benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { run_error(state, c); })
            ->Unit(benchmark::kMillisecond)
            ->Iterations(1);
      }
    }
  }
}

void attend_with_entropy(const Case& c, const Calls& work, const Tensors& t) {
  kernels::State state(c.shape(), c.stored(), c.precision(), 0, true);
  kernels::attend(c.backend, work[0], {t.q.view, t.k.view, t.v.view, c.scale()}, state);
}

/// The attention that keys receive, and the `top_keys` largest weights of every row.
class Statistics {
 public:
  Statistics(const Case& c, Index top_keys)
      : case_(c),
        received_(Tensors::zeros(c, DType::float64, 1)),
        weights_(Tensors::zeros(c, c.sums(), top_keys)),
        rows_(Tensors::zeros(c, DType::float64, top_keys)),
        views_{received_.view, weights_.view.data, static_cast<Index*>(rows_.view.data), top_keys} {}

  void attend(const Calls& work, const Tensors& t) const {
    if (views_.top_keys > 0) kernels::clear_top(case_.shape(), case_.n, case_.precision(), views_);
    kernels::attend_statistics(case_.backend, work[0], case_.shape(), case_.n, case_.precision(),
                               {t.q.view, t.k.view, t.normalizers.view, case_.scale()}, views_);
  }

 private:
  const Case& case_;
  DeviceTensor received_, weights_, rows_;
  kernels::StatisticViews views_;
};

void run_statistics(benchmark::State& state, const Case& c) {
  Tensors tensors(c);
  const Calls work = c.calls();
  const Statistics received(c, 0), top(c, 8);
  attend_once(c, work, tensors, true);
  std::array<double, 4> spent{};
  const auto add = [&](std::size_t i, const auto& pass) {
    const double start = core::cpu_seconds();
    pass();
    spent[i] += core::cpu_seconds() - start;
  };
  for (auto _ : state) {
    add(0, [&] { attend_once(c, work, tensors, false); });
    add(1, [&] { attend_with_entropy(c, work, tensors); });
    add(2, [&] { received.attend(work, tensors); });
    add(3, [&] { top.attend(work, tensors); });
  }
  state.counters["entropy"] = spent[1] / spent[0] - 1;
  state.counters["received"] = spent[2] / spent[0];
  state.counters["top"] = spent[3] / spent[0];
}

void register_statistics() {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float64}) {
    for (const Index n : {1024, 4096}) {
      for (const Index head_dim : {32, 48, 64, 128}) {
        for (const bool causal : {false, true}) {
          const Case c{Backend::host, false, type, n, 8, head_dim, causal};
          benchmark::RegisterBenchmark(
              fmt::format("statistics/{}/n:{}/D:{}/{}", core::name_of(type), n, head_dim, causal ? "causal" : "full")
                  .c_str(),
              [c](benchmark::State& state) { run_statistics(state, c); })
              ->Unit(benchmark::kMillisecond)
              ->MeasureProcessCPUTime();
        }
      }
    }
  }
}

/// Times of both passes with a rule of scores, as multiples of those of plain scores, measured in turn.
void run_scores(benchmark::State& state, const Case& plain, const kernels::ScoreRule& rule) {
  Case ruled = plain;
  ruled.rule = {&rule, 0};
  Tensors tensors(plain);
  const Calls work = plain.calls();
  attend_once(plain, work, tensors, true);
  std::array<double, 4> spent{};
  for (auto _ : state) {
    for (std::size_t i = 0; i < spent.size(); ++i) {
      const Case& c = i % 2 == 0 ? plain : ruled;
      const double start = core::cpu_seconds();
      i < 2 ? attend_once(c, work, tensors, false) : differentiate_once(c, work, tensors);
      spent[i] += core::cpu_seconds() - start;
    }
  }
  state.counters["forward"] = spent[1] / spent[0];
  state.counters["backward"] = spent[3] / spent[2];
}

void register_scores() {
  constexpr Index n = 8192, width = 90;
  std::vector<double> grid;
  for (Index row = 0; row < n; ++row) grid.insert(grid.end(), {double(row % width), std::floor(double(row) / width)});
  const auto places = std::make_shared<kernels::Coordinates>(grid);
  const std::vector<std::pair<std::string, kernels::ScoreRule>> rules{{"alibi:1/4", {0, {0.25}}},
                                                                      {"alibi:1/16", {0, {0.0625}}},
                                                                      {"alibi:1/256", {0, {0.00390625}}},
                                                                      {"plane:1/2", {0, {0.5}, 1, places}},
                                                                      {"plane:1/16", {0, {0.0625}, 1, places}},
                                                                      {"softcap:50", {50}}};
  for (const auto& [name, rule] : rules) {
    for (const bool causal : {false, true}) {
      const Case c{Backend::host, false, DType::float32, n, 1, 64, causal};
      benchmark::RegisterBenchmark(fmt::format("scores/{}/{}", name, causal ? "causal" : "full").c_str(),
                                   [c, rule = rule](benchmark::State& state) { run_scores(state, c, rule); })
          ->Unit(benchmark::kMillisecond)
          ->Iterations(5);
    }
  }
}

void register_case(const Case& c) {
  const std::string comb = c.dilation * c.hops > 1 ? fmt::format("/r:{}/hops:{}", c.dilation, c.hops) : "";
  std::string products(core::name_of(c.type));
  if (core::has_own_products(c.products))
    products +=
        c.products == core::Precision::bfloat16 ? "_products" : fmt::format("_by_{}", core::name_of(c.products));
  const std::string name = fmt::format("{}{}/{}/n:{}/D:{}{}/{}", c.backend == Backend::host ? "" : "team_",
                                       c.in_blocks  ? "in_blocks_backward"
                                       : c.backward ? "backward"
                                                    : "forward",
                                       products, c.n, c.head_dim, comb, c.causal ? "causal" : "full");
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { run(state, c); })
      ->Unit(benchmark::kMillisecond)
      ->MeasureProcessCPUTime();
}

void register_cases() {
  for (const bool backward : {false, true}) {
    for (const DType type : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
      for (const Index n : {1024, 2048, 4096}) {
        for (const Index dilation : {1, 8}) {
          for (const Index hops : {1, 4}) {
            if (dilation * hops > 1)
              register_case({Backend::host, backward, type, n, 8, 64, false, core::Precision::float32, dilation, hops});
          }
        }
        for (const Index head_dim : {32, 33, 40, 64, 72, 80, 96, 128, 160, 256}) {
          for (const bool causal : {false, true}) {
            register_case({Backend::host, backward, type, n, 8, head_dim, causal});
            register_case({Backend::device, backward, type, n, 8, head_dim, causal});
            for (const core::Precision products : core::all_precisions)
              if (core::has_own_products(products) && !core::is_tf32(products) && core::takes(products, type))
                register_case({Backend::host, backward, type, n, 8, head_dim, causal, products});
            Case in_blocks{Backend::host, backward, type, n, 8, head_dim, causal};
            in_blocks.in_blocks = true;
            if (backward) register_case(in_blocks);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace annulus::benchmarks

int main(int argc, char** argv) {
  Kokkos::ScopeGuard kokkos(argc, argv);
  if (const char* const name = std::getenv("ANNULUS_INSTRUCTION_SET"); name != nullptr) {
    if (const auto set = annulus::core::instruction_set_called(name)) annulus::core::limit_instruction_set(*set);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("instruction set", std::string(annulus::kernels::host_instruction_set()));
  annulus::benchmarks::register_cases();
  annulus::benchmarks::register_statistics();
  annulus::benchmarks::register_scores();
  annulus::benchmarks::register_errors();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
