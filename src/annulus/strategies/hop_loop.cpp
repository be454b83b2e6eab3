#include "annulus/strategies/hop_loop.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {
namespace {

/// One pass: own keys first, then those that each hop brings.
void run(const Problem& pass, const KeyBlock& own, KeyHops& keys, Computation& computation,
         core::RankMetrics& metrics) {
  const std::size_t hops = keys.count();
  metrics.hops.resize(std::max(metrics.hops.size(), hops + 1));
  const auto poll = [&] { keys.progress(); };
  std::vector<KeyBlock> in_hand{own};
  for (std::size_t h = 0; h <= hops; ++h) {
    if (h < hops) keys.start(h, metrics.hops[h + 1]);
    const std::string place = h == 0 ? "own rows" : fmt::format("hop {} of {}", h, hops);
    const core::Mask part = h == 0 ? pass.first_part() : core::Mask::all;
    for (const KeyBlock& block : in_hand) computation.add(block, part, place, metrics.hops[h], poll);
    if (h == hops) break;
    const comm::Place here(fmt::format("hop {} of {}", h + 1, hops));
    keys.complete(h, metrics.hops[h + 1]);
    in_hand = keys.blocks(h);
  }
  if (pass.has_last_part()) computation.add(own, core::Mask::after, "own rows", metrics.hops[0]);
}

}  // namespace

Prediction predict_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction prediction;
  prediction.kept = kept_of(problem, rows);
  Index most = 0;
  for (const Problem& pass : passes(problem)) {
    Index buffers = 0;
    for (const pattern::Hops& hops : lanes(pass.layout(), partition, rank)) {
      buffers += buffer_bytes(pass, hops).total();
      add_hops(pass, hops, prediction);
    }
    most = std::max(most, buffers);
  }
  prediction.memory_bytes = local_memory(problem, rows.count(), most);
  return prediction;
}

core::RankMetrics forward_in_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes,
                                  HopMode mode, const comm::Communicator& comm, Tensors& tensors,
                                  const Progress& progress) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  const KeyBlock own = own_block(tensors, rows);
  core::RankMetrics metrics{rows.count(), {{}}};
  Computation computation(problem, rows, tensors, kept_of(problem, rows), progress);
  for (const Problem& pass : passes(problem)) {
    // Passes share tags: between two ranks messages arrive in the order in which they were sent, pass after pass.
    const Lanes hops = lanes(pass.layout(), partition, comm.rank());
    computation.begin(pass, metrics.hops[0]);
    KeyHops keys(pass, mode, comm);
    for (const pattern::Hops& lane : hops) keys.add_lane(lane, own);
    run(pass, own, keys, computation, metrics);
  }
  computation.finish(metrics.hops.back());
  return metrics;
}

}  // namespace annulus::strategies
