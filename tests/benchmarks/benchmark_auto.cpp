// How good are `auto` and the simulation? Runs a grid of cases with every strategy and partition, interleaved, and
// prints how far the choice of `auto` is from the best measured, and the simulated ring and rotation from the measured
// ones.
//
//   mpirun -n 4 build/test/tests/benchmarks/benchmark_auto MACHINE.yaml [rounds, default 5] [largest n, default 8192]
//
// MACHINE.yaml comes from `mpirun -n 4 annulus plan --calibrate MACHINE.yaml` with the same ranks and threads.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "annulus/comm/runtime.hpp"
#include "annulus/planner/choose.hpp"
#include "annulus/runfile/machine_file.hpp"
#include "annulus/store/generated.hpp"
#include "planner/simulation.hpp"

namespace annulus::benchmarks {
namespace {

using core::Index;
using planner::Candidate;
using strategies::Problem;

struct Case {
  std::string name;
  Problem problem;
};

std::vector<Case> grid(Index largest) {
  std::vector<Case> cases;
  for (Index n = 512; n <= largest; n *= 2) {
    for (const bool causal : {false, true}) {
      for (const bool dilated : {false, true}) {
        Case one;
        one.name = fmt::format("n {:>6} {}{}", n, dilated ? "dilated" : "dense", causal ? " causal" : "");
        Problem& problem = one.problem;
        problem.shape = {1, n, 4, 4, 64};
        problem.scale = 0.125;
        problem.documents = {0, n};
        problem.pattern.causal = causal;
        if (dilated) problem.pattern.pairs = {{n / 32, 1}, {n / 8, 4}, {pattern::whole_document, 16}};
        problem.backend = kernels::default_backend();
        cases.push_back(one);
      }
    }
  }
  return cases;
}

strategies::Tensors tensors_of(const Problem& problem, const pattern::StoredRows& rows) {
  const runfile::GenerateSettings settings{problem.shape, problem.type, 1};
  const Index bytes = problem.shape.batch * rows.count() * problem.query_row_bytes();
  const Index kv_bytes = problem.shape.batch * rows.count() * problem.kv_row_bytes();
  strategies::Tensors tensors{core::Buffer("q", bytes), core::Buffer("kv", 2 * kv_bytes), {}, {}};
  const auto fill = [&](core::TensorId tensor, void* to, Index size) {
    std::vector<std::byte> host(static_cast<std::size_t>(size));
    store::fill_tensor(settings.seed, store::generated(settings, tensor), rows.intervals(), host.data());
    core::copy_to_device(to, host.data(), size);
  };
  fill(core::TensorId::q, tensors.q.data(), bytes);
  fill(core::TensorId::k, tensors.kv.data(), kv_bytes);
  fill(core::TensorId::v, tensors.kv.at(kv_bytes), kv_bytes);
  return tensors;
}

/// One candidate of a case, ready to run.
struct Runner {
  Candidate candidate;
  Problem problem;
  pattern::Partition partition;
  strategies::Tensors tensors;
  std::vector<double> seconds;

  void run(const comm::Communicator& comm) {
    comm.barrier();
    const double start = core::wall_seconds();
    candidate.strategy->forward(problem, partition, comm, tensors, {});
    seconds.push_back(comm.max(core::wall_seconds() - start));
  }
  double least() const { return *std::min_element(seconds.begin() + 1, seconds.end()); }
  double median() const {
    std::vector<double> sorted(seconds.begin() + 1, seconds.end());  // the first one warms up
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// Deviation of the simulation from the least measured time, for strategies that it knows.
std::string simulated(const Runner& runner, const core::Machine& machine) {
  const std::string_view name = runner.candidate.strategy->name();
  if (name != "ring" && name != "rotation" && name != "onesided") return "";
  using planner::Coupling;
  const Coupling coupling = name == "ring"       ? Coupling::neighbours
                            : name == "rotation" ? Coupling::rotation
                                                 : Coupling::one_sided;
  const auto schedule = runner.candidate.strategy->forward_schedule(runner.problem, runner.partition);
  const auto done = planner::simulate(planner::timed(*schedule, coupling, machine), 0, 1);
  const double seconds = *std::max_element(done.begin(), done.end());
  return fmt::format("  simulated {:9.3f} ms ({:+.0f} %)", 1e3 * seconds, 100 * (seconds / runner.least() - 1));
}

/// Time of auto's choice divided by the best time. And the noise of this ratio: the largest ratio of medians of two
/// candidates that move the same bytes in the same predicted time (at 2 ranks ring, rotation and ring_bidirectional do
/// the same).
struct Ratio {
  double medians = 1;
  double minima = 1;
  double noise = 1;
};

double noise(const std::vector<Runner>& runners) {
  double largest = 1;
  for (const Runner& a : runners) {
    for (const Runner& b : runners) {
      if (!a.candidate.cost || !b.candidate.cost || a.candidate.partition != b.candidate.partition) continue;
      const bool same = a.candidate.cost->seconds == b.candidate.cost->seconds &&
                        a.candidate.cost->total_bytes == b.candidate.cost->total_bytes;
      if (same) largest = std::max(largest, a.median() / b.median());
    }
  }
  return largest;
}

Ratio measure(const Case& one, const core::Machine& machine, int rounds, const comm::Communicator& comm) {
  const planner::Choice choice = planner::choose(one.problem, comm.size(), std::nullopt, machine);
  std::vector<Runner> runners;
  for (const Candidate& candidate : choice.candidates) {
    Runner runner{candidate, one.problem, {}, {}, {}};
    runner.problem.partition = candidate.partition;
    runner.partition = candidate.strategy->partition(runner.problem, comm.size());
    runner.tensors = tensors_of(runner.problem, runner.partition[std::size_t(comm.rank())]);
    runners.push_back(std::move(runner));
  }
  for (int round = 0; round <= rounds; ++round) {
    for (Runner& runner : runners) runner.run(comm);
  }
  double best = runners.front().median(), least = runners.front().least();
  for (const Runner& runner : runners) {
    best = std::min(best, runner.median());
    least = std::min(least, runner.least());
  }
  const Ratio ratio{runners[choice.taken].median() / best, runners[choice.taken].least() / least, noise(runners)};
  if (!comm.is_root()) return ratio;
  std::printf("%s: auto takes %s, %.3f of the best median, %.3f of the best minimum, noise %.3f\n", one.name.c_str(),
              name_of(runners[choice.taken].candidate).c_str(), ratio.medians, ratio.minima, ratio.noise);
  for (const Runner& runner : runners) {
    const double predicted = runner.candidate.cost ? runner.candidate.cost->seconds : 0;
    std::printf("    %-32s median %9.3f ms  least %9.3f ms  predicted %9.3f ms (%+.0f %%)%s\n",
                name_of(runner.candidate).c_str(), 1e3 * runner.median(), 1e3 * runner.least(), 1e3 * predicted,
                100 * (predicted / runner.least() - 1), simulated(runner, machine).c_str());
  }
  std::fflush(stdout);
  return ratio;
}

void summary(const char* of, std::vector<double> ratios, int ranks) {
  std::sort(ratios.begin(), ratios.end());
  const auto good = std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio <= 1.15; });
  std::printf("%d ranks, %s: auto within 15 %% of the best in %d of %d cases, middle %.3f, worst %.3f of the best\n",
              ranks, of, int(good), int(ratios.size()), ratios[ratios.size() / 2], ratios.back());
}

int main(int argc, char** argv) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  if (argc < 2) {
    if (comm.is_root()) std::fprintf(stderr, "usage: benchmark_auto MACHINE.yaml [rounds] [largest n]\n");
    return 2;
  }
  const core::Machine machine = runfile::read_machine_file(argv[1], comm);
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
  std::vector<double> medians, minima;
  double noise = 1;
  for (const Case& one : grid(argc > 3 ? std::atol(argv[3]) : 8192)) {
    const Ratio ratio = measure(one, machine, rounds, comm);
    medians.push_back(ratio.medians);
    minima.push_back(ratio.minima);
    noise = std::max(noise, ratio.noise);
  }
  if (comm.is_root()) {
    summary("medians", medians, comm.size());
    summary("minima", minima, comm.size());
    std::printf("noise: medians of identical plans differ by up to a factor of %.2f\n", noise);
  }
  return 0;
}

}  // namespace
}  // namespace annulus::benchmarks

int main(int argc, char** argv) {
  const annulus::comm::Runtime runtime(argc, argv);
  return annulus::benchmarks::main(argc, argv);
}
