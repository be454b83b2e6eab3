#include "annulus/strategies/hop_loop.hpp"

#include <algorithm>
#include <deque>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/cargo.hpp"
#include "annulus/strategies/hop_lane.hpp"

namespace annulus::strategies {
namespace {

using pattern::Hop;
using pattern::Hops;

std::size_t hop_count(const Lanes& lanes) {
  std::size_t count = 0;
  for (const Hops& hops : lanes) count = std::max(count, hops.size());
  return count;
}

/// Walks the hops of all lanes together.
class HopLoop {
 public:
  HopLoop(const Problem& problem, const Lanes& lanes, const KeyBlock& own, HopMode mode, const comm::Communicator& comm)
      : problem_(problem), own_(own), hops_(hop_count(lanes)), mode_(mode), exchange_(comm) {
    for (const Hops& hops : lanes) lanes_.emplace_back(problem, hops, own_);
  }

  void run(Computation& computation, core::RankMetrics& metrics) {
    metrics.hops.resize(std::max(metrics.hops.size(), hops_ + 1));
    const auto poll = [this] { exchange_.progress(); };
    std::vector<KeyBlock> in_hand{own_};
    for (std::size_t h = 0; h <= hops_; ++h) {
      const bool more = h < hops_;
      if (more && mode_ == HopMode::overlapped) start(h, metrics.hops[h + 1]);
      const std::string place = h == 0 ? "own rows" : fmt::format("hop {} of {}", h, hops_);
      const core::Mask part = h == 0 ? problem_.first_part() : core::Mask::all;
      for (const KeyBlock& block : in_hand) computation.add(block, part, place, metrics.hops[h], poll);
      if (more) in_hand = complete(h, metrics.hops[h + 1]);
    }
    if (problem_.has_last_part()) computation.add(own_, core::Mask::after, "own rows", metrics.hops[0]);
  }

 private:
  static int tag(std::size_t h) { return int(h % 1024); }

  std::vector<comm::Message> outgoing(std::size_t h) const {
    std::vector<comm::Message> messages;
    for (const Lane& lane : lanes_) {
      if (lane.has(h)) messages.push_back(lane.outgoing(h));
    }
    return messages;
  }
  std::vector<comm::Message> incoming(std::size_t h) const {
    std::vector<comm::Message> messages;
    for (const Lane& lane : lanes_) {
      if (lane.has(h)) messages.push_back(lane.incoming(h));
    }
    return messages;
  }

  /// Starting to send takes time where device memory is staged: that part of communication nothing hides. Collecting
  /// the rows is not waiting.
  void start(std::size_t h, core::HopMetrics& metrics) {
    const std::vector<comm::Message> sends = outgoing(h), receives = incoming(h);
    const double began = core::wall_seconds();
    exchange_.start(sends, receives, tag(h));
    metrics.wait_seconds += core::wall_seconds() - began;
  }

  /// Ends hop h; returns the blocks it brought.
  std::vector<KeyBlock> complete(std::size_t h, core::HopMetrics& metrics) {
    const comm::Place place(fmt::format("hop {} of {}", h + 1, hops_));
    if (mode_ == HopMode::overlapped) {
      const double start = core::wall_seconds();
      exchange_.wait();
      metrics.wait_seconds += core::wall_seconds() - start;
    } else {
      const std::vector<comm::Message> sends = outgoing(h), receives = incoming(h);
      const double start = core::wall_seconds();
      exchange_.run_blocking(sends, receives, tag(h));
      metrics.wait_seconds += core::wall_seconds() - start;
    }
    std::vector<KeyBlock> blocks;
    for (Lane& lane : lanes_) {
      if (!lane.has(h)) continue;
      metrics.bytes_sent += cargo_bytes(problem_, lane.hop(h).send);
      metrics.bytes_received += cargo_bytes(problem_, lane.hop(h).receive);
      metrics.rows_received += pattern::head_rows(lane.hop(h).receive);
      blocks.push_back(lane.take(h));
    }
    return blocks;
  }

  const Problem& problem_;
  KeyBlock own_;
  std::size_t hops_;
  HopMode mode_;
  std::deque<Lane> lanes_;   // a deque: a lane does not move, the blocks it hands out point into it
  comm::Exchange exchange_;  // behind the lanes: when an error unwinds, messages end before their buffers do
};

}  // namespace

Prediction predict_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction prediction;
  prediction.kept = kept_between(problem, rows, pattern::KeyRows::raw(rows));
  Index most = 0;
  for (const Problem& pass : passes(problem)) {
    Index buffers = 0;
    for (const Hops& hops : lanes(pass.layout(), partition, rank)) {
      buffers += buffer_bytes(pass, hops).total();
      for (const Hop& hop : hops) {
        prediction.bytes_sent += cargo_bytes(pass, hop.send);
        prediction.bytes_received += cargo_bytes(pass, hop.receive);
        prediction.kept += kept_between(pass, rows, pattern::KeyRows::packed(hop.receive));
      }
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
  core::RankMetrics metrics{rows.count(), {{}}};
  Computation computation(problem, rows, tensors, predict_hops(problem, partition, lanes, comm.rank()).kept, progress);
  for (const Problem& pass : passes(problem)) {
    // Passes share tags: between two ranks messages arrive in the order in which they were sent, pass after pass.
    const Lanes hops = lanes(pass.layout(), partition, comm.rank());
    computation.begin(pass, metrics.hops[0]);
    HopLoop(pass, hops, own_block(tensors, rows), mode, comm).run(computation, metrics);
  }
  computation.finish(metrics.hops.back());
  return metrics;
}

}  // namespace annulus::strategies
