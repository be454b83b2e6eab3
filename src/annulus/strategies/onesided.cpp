// onesided: K and V are exposed once; every rank reads the rows it needs straight out of the other ranks' memory, a few
// owners ahead of the kernel, in the order of the rotation: rank - 1, rank - 2, ... Nobody sends, so no rank waits for
// another's compute: ranks meet when the windows are filled, and again before they are freed.
//
// Backward: sums for other ranks' rows are added into these ranks' windows (MPI_Accumulate), in whatever order ranks
// get there. So nobody waits before the end, where each owner must, and the last bits of dk and dv differ from run to
// run.
#include <algorithm>

#include "annulus/comm/window_room.hpp"
#include "annulus/strategies/hop_backward.hpp"
#include "annulus/strategies/make.hpp"
#include "annulus/strategies/onesided_reads.hpp"
#include "annulus/strategies/onesided_sums.hpp"

namespace annulus::strategies {
namespace {

using pattern::Hops;

/// The hops of one pass, for predict_hops().
Lanes lane(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::rotation_hops(layout, partition, rank)};
}

class Onesided final : public Strategy {
 public:
  std::string_view name() const override { return "onesided"; }
  std::string_view description() const override {
    return "ranks read K and V out of each other's memory (MPI RMA): no rank waits for another's compute";
  }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return ordered_partition(problem, ranks);
  }
  std::string unavailable() const override { return comm::window_defect(); }
  std::string not_reproducible(const Problem& problem, int) const override { return disorder_of(problem); }
  std::string not_reproducible_gradients(const Problem&, int) const override {
    return "ranks add dk and dv up in each other's memory, in whatever order they get there";
  }

  CommunicationShape communication(const Problem&, int) const override { return {Movement::window}; }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    Prediction prediction = predict_hops(problem, partition, lane, rank);  // the same rows as in rotation
    Index most = 0;
    for (const Problem& pass : passes(problem)) {
      most = std::max(most, ReadAhead::bytes(pass, pattern::rotation_hops(pass.layout(), partition, rank)));
    }
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
    prediction.memory_bytes = local_memory(problem, rows.count(), most) + kv_window_bytes(problem, rows, hops);
    return prediction;
  }

  /// Shared memory gets pages when it is touched, and a rank that finds none left dies of it: so there must be room for
  /// the windows of both passes, the backward pass having two at a time.
  void check_ranks(const Problem& problem, const pattern::Partition& partition,
                   const comm::Communicator& comm) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
    const Index sums = problem.gradients ? sum_window_bytes(problem, rows, hops) : 0;
    comm::require_window_room(comm, kv_window_bytes(problem, rows, hops) + sums);
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Hops all_hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
    core::RankMetrics metrics{rows.count(), {{}}};
    const KeyBlock own = own_block(tensors, rows);
    comm::Window window(comm, "kv window", kv_window_bytes(problem, rows, all_hops));
    fill_window(problem, rows, own, window);
    core::timed_wait(metrics.hops[0], [&] { window.publish(); });

    Computation computation(problem, rows, tensors, kept_of(problem, rows), progress);
    for (const Problem& pass : passes(problem)) {
      const Hops hops = pattern::rotation_hops(pass.layout(), partition, comm.rank());
      metrics.hops.resize(std::max(metrics.hops.size(), hops.size() + 1));
      for (std::size_t h = 0; h < hops.size(); ++h) metrics.hops[h + 1].bytes_sent += cargo_bytes(pass, hops[h].send);
      computation.begin(pass, metrics.hops[0]);
      ReadAhead reads(pass, partition, hops, window, metrics);
      reads.walk(own, [&](std::size_t step, const KeyBlock& block, const std::string& place, auto& hop) {
        const core::Mask part = step == 0 ? pass.first_part() : core::Mask::all;
        computation.add(block, part, place, hop, [&] { reads.progress(); });
      });
      if (pass.has_last_part()) computation.add(own, core::Mask::after, "own rows", metrics.hops[0]);
    }
    computation.finish(metrics.hops.back());
    window.close();  // behind the results: the others may read for a while yet
    return metrics;
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    const BackwardLanes lanes = backward_lanes(problem, partition, rank);
    const Hops& hops = lanes.keys[0];
    Prediction prediction = predict_backward_hops(problem, partition, lanes, rank);  // the same rows as in rotation
    const Index sums = sum_window_bytes(problem, rows, hops);
    const Index buffers = std::max(ReadAhead::bytes(problem, hops) + RemoteSums::bytes(problem, hops),
                                   sums / (2 * problem.shape.batch));  // at the end, a part of the window
    prediction.memory_bytes =
        backward_memory(problem, rows.count(), buffers) + kv_window_bytes(problem, rows, hops) + sums;
    return prediction;
  }

  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
    core::RankMetrics metrics{rows.count(), std::vector<core::HopMetrics>(hops.size() + 1)};
    const KeyBlock own = own_block(tensors, rows);
    comm::Window sums(comm, "gradient window", sum_window_bytes(problem, rows, hops));
    comm::Window window(comm, "kv window", kv_window_bytes(problem, rows, hops));
    sums.clear();
    fill_window(problem, rows, own, window);
    core::timed_wait(metrics.hops[0], [&] {
      sums.publish();
      window.publish();
    });

    BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                    kept_of(problem, rows), progress);
    walk_backward(problem, partition, hops, window, sums, own, computation, metrics);
    // The one place where a rank waits for the others' compute.
    core::timed_wait(metrics.hops.back(), [&] { sums.collect(); });
    add_window(problem, rows, sums, computation.own());
    computation.finish(metrics.hops.back());
    sums.close();
    window.close();
    for (std::size_t h = 0; h < hops.size(); ++h) {  // what the others did here
      metrics.hops[h + 1].bytes_sent += cargo_bytes(problem, hops[h].send);
      metrics.hops[h + 1].bytes_received += gradient_bytes(problem, hops[h].send);
      metrics.hops[h + 1].rows_received += pattern::head_rows(hops[h].send);
    }
    return metrics;
  }

 private:
  static BackwardLanes backward_lanes(const Problem& problem, const pattern::Partition& partition, int rank) {
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
    return {{hops}, {pattern::direct_gradients(hops, rank, int(partition.size()))}};
  }

  static void walk_backward(const Problem& problem, const pattern::Partition& partition, const Hops& hops,
                            const comm::Window& window, const comm::Window& sums, const KeyBlock& own,
                            BackwardComputation& computation, core::RankMetrics& metrics) {
    ReadAhead reads(problem, partition, hops, window, metrics);
    RemoteSums remote(problem, partition, hops, sums);
    const auto poll = [&] {
      reads.progress();
      remote.progress();
    };
    reads.walk(own, [&](std::size_t step, const KeyBlock& block, const std::string& place, auto& hop) {
      if (step == 0) return computation.add(block, computation.own(), place, hop, poll);
      const std::size_t i = step - 1;
      computation.add(block, remote.begin(i, reads.hop(i), hop), place, hop, poll);
      remote.start(i, reads.hop(i), hop);
    });
    remote.finish(metrics.hops.back());
  }
};

}  // namespace

std::unique_ptr<Strategy> make_onesided() { return std::make_unique<Onesided>(); }

}  // namespace annulus::strategies
