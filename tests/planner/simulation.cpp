#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "annulus/planner/cost.hpp"

namespace annulus::planner {

using strategies::KeyRound;
using strategies::Problem;
using strategies::Schedule;
using strategies::Transfer;
namespace {

/// An exponential random number with mean 1, the same with every standard library.
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
      // The part that compute does not hide moves only after the kernel, when both ranks are inside MPI calls.
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

HopSchedule timed(const Schedule& schedule, Coupling coupling, const core::Machine& machine) {
  const Problem& problem = schedule.problem();
  const KeyRound& keys = schedule.keys().round(0);
  const int ranks = keys.ranks();
  const double rate = 4e-9 * problem.shape.mean_dim() * seconds_per_gflop(problem, machine);
  const core::Link link = ranks <= machine.ranks_per_node ? machine.inside_node : machine.between_nodes;
  const std::vector<double> none(static_cast<std::size_t>(ranks));
  std::vector<std::vector<double>> compute(none.size(), none), transfer = compute;
  for (int p = 0; p < ranks; ++p) {
    const auto at = std::size_t(p);
    for (std::size_t s = 0; s < keys.steps(p); ++s) {
      for (std::size_t channel = 0; channel < keys.channels(); ++channel) {
        if (s == 0 && !keys.computes_own(channel)) continue;
        compute[at][s] += rate * double(kept_between(problem, keys.queries(p, channel), keys.form(p, s, channel).rows));
      }
      for (const Transfer& one : keys.transfers(p, s).received) {
        transfer[at][s] += link.seconds_per_message + double(one.bytes) * link.seconds_per_byte;
      }
    }
  }
  return {ranks,
          ranks - 1,
          coupling,
          machine.overlap,
          [compute](int p, int h) { return compute[std::size_t(p)][std::size_t(h)]; },
          [transfer](int p, int h) { return transfer[std::size_t(p)][std::size_t(h)]; }};
}

}  // namespace annulus::planner
