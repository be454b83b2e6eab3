#include "annulus/strategies/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "annulus/strategies/cargo.hpp"

namespace annulus::strategies {
namespace {

/// Exponential with mean 1 from the engine's bits: the same numbers with every standard library.
double exponential(std::mt19937_64& random) { return -std::log(1 - double(random() >> 11) * 0x1p-53); }

}  // namespace

std::vector<double> simulate(const HopSchedule& schedule, double jitter, std::uint64_t seed) {
  const int ranks = schedule.ranks;
  std::mt19937_64 random(seed);
  std::vector<double> ready(static_cast<std::size_t>(ranks)), done(ready), arrived(ready);
  for (int h = 0; h <= schedule.hops; ++h) {
    const int distance = schedule.coupling == Coupling::neighbours ? 1 : h + 1;
    const bool alone = schedule.coupling == Coupling::one_sided;
    for (int p = 0; p < ranks; ++p) {
      const auto at = std::size_t(p);
      done[at] = ready[at] + schedule.compute(p, h) * (1 + (jitter > 0 ? jitter * exponential(random) : 0));
      if (h == schedule.hops) continue;
      const double transfer = schedule.transfer(p, h);
      const double owner = ready[std::size_t(core::wrap(p - distance, ranks))];
      const double start = transfer == 0 || alone ? ready[at] : std::max(ready[at], owner);
      const double hidden = std::min(schedule.overlap * transfer, done[at] - ready[at]);
      // What is not hidden moves only after the kernel, when both ends sit in MPI.
      arrived[at] = start + transfer;
      if (hidden < transfer) arrived[at] = std::max(arrived[at], done[at] + transfer - hidden);
    }
    if (h == schedule.hops) break;
    for (int p = 0; p < ranks; ++p) {
      const int reader = core::wrap(p + distance, ranks);
      const bool sends = !alone && schedule.transfer(reader, h) > 0;
      const auto at = std::size_t(p);
      ready[at] = std::max({done[at], arrived[at], sends ? arrived[std::size_t(reader)] : 0.0});
    }
  }
  return done;
}

HopSchedule schedule_of(const Problem& problem, const pattern::Partition& partition, Coupling coupling,
                        const core::Machine& machine) {
  const int ranks = int(partition.size());
  const double rate = 4e-9 * double(problem.shape.head_dim) *
                      machine.seconds_per_gflop(problem.shape.head_dim, problem.type, problem.precision);
  const core::Link link = ranks <= machine.ranks_per_node ? machine.inside_node : machine.between_nodes;
  const auto hops = std::size_t(ranks - 1);
  std::vector<std::vector<double>> compute(partition.size(), std::vector<double>(hops + 1));
  std::vector<std::vector<double>> transfer(partition.size(), std::vector<double>(hops));
  for (int p = 0; p < ranks; ++p) {
    const auto at = std::size_t(p);
    const pattern::StoredRows& rows = partition[at];
    const pattern::Hops all = coupling == Coupling::neighbours
                                  ? pattern::ring_hops(problem.layout(), partition, p, 1, ranks - 1)
                                  : pattern::rotation_hops(problem.layout(), partition, p);
    compute[at][0] = rate * double(kept_between(problem, rows, pattern::KeyRows::raw(rows)));
    for (std::size_t h = 0; h < all.size(); ++h) {
      const double bytes = double(cargo_bytes(problem, all[h].receive));
      compute[at][h + 1] = rate * double(kept_between(problem, rows, pattern::KeyRows::packed(all[h].receive)));
      transfer[at][h] = bytes > 0 ? link.seconds_per_message + bytes * link.seconds_per_byte : 0;
    }
  }
  return {ranks,
          ranks - 1,
          coupling,
          machine.overlap,
          [compute](int p, int h) { return compute[std::size_t(p)][std::size_t(h)]; },
          [transfer](int p, int h) { return transfer[std::size_t(p)][std::size_t(h)]; }};
}

}  // namespace annulus::strategies
