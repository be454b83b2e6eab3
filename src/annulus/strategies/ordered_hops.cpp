// K and V in hops for backward_in_order(): ring, rotation, and rings across groups.
#include <algorithm>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/ordered_backward.hpp"

namespace annulus::strategies {
namespace {

using pattern::Cargo;
using pattern::Hops;
using pattern::Partition;

/// Every rank's rows in slices that are intervals of their own.
Partition cut(const std::vector<Partition>& slices) {
  Partition partition;
  for (std::size_t p = 0; p < slices.front().size(); ++p) {
    std::vector<core::Interval> rows;
    for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
      for (const core::Interval& interval : (*slice)[p].intervals()) rows.push_back(interval);
    }
    partition.emplace_back(rows);
  }
  return partition;
}

/// What the hops move of a slice.
Hops hops_of(Hops hops, const Partition& slice) {
  const auto keep = [&](Cargo& cargo) {
    std::erase_if(cargo, [&](const pattern::Stretch& stretch) {
      return std::none_of(slice.begin(), slice.end(),
                          [&](const auto& rows) { return rows.count() > 0 && rows.intervals()[0] == stretch.rows; });
    });
  };
  for (pattern::Hop& hop : hops) {
    keep(hop.send);
    keep(hop.receive);
  }
  return hops;
}

/// What one rank does in one pass.
struct HopPlan {
  HopPlan(const Problem& pass, const Partition& partition, const MakeLanes& make_lanes, HopMode mode, int rank,
          void* kv) {
    const Index count = ordered_slices(mode, partition.size());
    std::vector<Partition> parts;
    for (Index i = 0; i < count; ++i) parts.push_back(pattern::slice_of(partition, count, i));
    const Lanes lanes = make_lanes(pass.layout(), cut(parts), rank);
    core::require(lanes.size() == 1,
                  [&] { return fmt::format("{} lanes move keys in no single order", lanes.size()); });
    for (Index i = 0; i < count; ++i) {
      const Partition& part = parts[std::size_t(i)];
      hops.push_back(hops_of(lanes[0], part));
      OrderedSlice& slice = slices.emplace_back();
      slice.travel = pattern::ordered_gradients(pass.layout(), partition, part, rank);
      slice.keys.resize(partition.size());
      slice.keys[0] = own_slice(kv, partition, rank, count, i);
      for (std::size_t h = 0; h < hops.back().size(); ++h) {
        const Cargo& cargo = hops.back()[h].receive;
        slice.keys[h + 1] = {nullptr, pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
      }
    }
  }

  std::vector<Hops> hops;  // [slices]
  std::vector<OrderedSlice> slices;
};

class HopKeys final : public OrderedKeys {
 public:
  HopKeys(const Problem& pass, const HopPlan& plan, HopMode mode, const comm::Communicator& comm)
      : hops_(pass, mode, comm) {
    for (std::size_t i = 0; i < plan.hops.size(); ++i) hops_.add_lane(plan.hops[i], plan.slices[i].keys[0]);
  }

  void start(std::size_t s, core::RankMetrics& metrics) override {
    if (s < hops_.count()) hops_.start(s, metrics.hops[s + 1]);
  }
  void progress() override { hops_.progress(); }
  void complete(std::size_t s, core::RankMetrics& metrics) override {
    if (s >= hops_.count()) return;
    const comm::Place here(fmt::format("K and V of step {}", s + 1));
    hops_.complete(s, metrics.hops[s + 1]);
    blocks_ = hops_.blocks(s);
  }
  KeyBlock block(std::size_t i, std::size_t) const override { return blocks_[i]; }

 private:
  KeyHops hops_;  // one lane for each slice, of equally many hops
  std::vector<KeyBlock> blocks_;
};

}  // namespace

Prediction predict_hops_in_order(const Problem& problem, const Partition& partition, const MakeLanes& lanes,
                                 HopMode mode, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction all;
  all.kept = kept_of(problem, rows);
  Index most = 0;
  for (const Problem& pass : passes(problem)) {
    const HopPlan plan(pass, partition, lanes, mode, rank, nullptr);
    Prediction one = predict_sums(pass, plan.slices);
    for (std::size_t i = 0; i < plan.slices.size(); ++i) {
      one.memory_bytes += buffer_bytes(pass, plan.hops[i]).total();
      add_hops(pass, plan.hops[i], one);
    }
    all.bytes_sent += one.bytes_sent;
    all.bytes_received += one.bytes_received;
    most = std::max(most, one.memory_bytes);
  }
  all.memory_bytes = backward_work(problem, rows.count(), most);
  return all;
}

void backward_hops_in_order(const Problem& problem, const Partition& partition, const MakeLanes& lanes, HopMode mode,
                            const comm::Communicator& comm, const Tensors& tensors, BackwardComputation& computation,
                            core::RankMetrics& metrics) {
  metrics.hops.resize(1);
  for (const Problem& pass : passes(problem)) {
    const HopPlan plan(pass, partition, lanes, mode, comm.rank(), tensors.kv.data());
    metrics.hops.resize(std::max(metrics.hops.size(), plan.hops.front().size() + 1));
    HopKeys keys(pass, plan, mode, comm);
    backward_in_order(pass, plan.slices, keys, mode, comm, computation, metrics);
  }
}

}  // namespace annulus::strategies
