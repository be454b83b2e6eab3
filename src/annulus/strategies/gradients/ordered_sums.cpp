#include "annulus/strategies/gradients/ordered_sums.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/gradients/gradient_lane.hpp"
#include "annulus/strategies/keys/gathered_keys.hpp"

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

/// The own rows in slice `i`, as keys.
KeyBlock own_slice(void* kv, const Partition& partition, const Partition& slices, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const pattern::StoredRows& slice = slices[std::size_t(rank)];
  if (slice.count() == 0) return {kv, rows.count(), {}};
  const core::Interval taken = slice.intervals().front();
  return {kv, rows.count(), pattern::KeyRows::raw({{taken, taken.begin - rows.intervals().front().begin}})};
}

}  // namespace

Index ordered_slices(HopMode mode, std::size_t ranks) { return mode == HopMode::overlapped && ranks > 1 ? 2 : 1; }

HopPlan plan_sliced_hops(const MakeLanes& make_lanes, const Problem& round, const Partition& partition, int rank,
                         void* kv, Index slices) {
  std::vector<Partition> parts;
  for (Index i = 0; i < slices; ++i) parts.push_back(pattern::slice_of(partition, slices, i));
  const Lanes lanes = make_lanes(round.layout(), cut(parts), rank);
  core::require(lanes.size() == 1, [&] { return fmt::format("{} lanes move keys in no single order", lanes.size()); });
  HopPlan plan;
  for (const Partition& part : parts) {
    plan.lanes.push_back({hops_of(lanes[0], part), own_slice(kv, partition, part, rank), true});
  }
  return plan;
}

std::vector<OrderedSlice> ordered_slices_of(const Problem& round, const Partition& partition, int rank,
                                            std::size_t slices,
                                            const std::function<KeyBlock(std::size_t s, std::size_t i)>& form) {
  std::vector<OrderedSlice> all(slices);
  for (std::size_t i = 0; i < slices; ++i) {
    const Partition part = pattern::slice_of(partition, Index(slices), Index(i));
    all[i].travel = pattern::ordered_gradients(round.layout(), partition, part, rank);
    for (std::size_t s = 0; s < partition.size(); ++s) all[i].keys.push_back(form(s, i));
  }
  return all;
}

Prediction predict_sums(const Problem& round, const std::vector<OrderedSlice>& slices) {
  Prediction prediction;
  for (const OrderedSlice& slice : slices) {
    prediction.memory_bytes += ordered_bytes(round, slice).total();
    add_gradient_hops(round, slice.travel, prediction);
  }
  return prediction;
}

OrderedSums::OrderedSums(const Setting& setting, const KeySource& keys, HopMode mode)
    : setting_(setting), keys_(keys), mode_(mode) {}

void OrderedSums::begin(const Problem& round, const GradientBlock& own) {
  own_ = own;
  finish();
  slices_ = ordered_slices_of(round, setting_.partition, setting_.rank(), keys_.lanes(),
                              [&](std::size_t s, std::size_t i) { return keys_.form(s, i); });
  for (const OrderedSlice& slice : slices_) {
    sums_.emplace_back(setting_.problem, slice, own);
    exchanges_.emplace_back(setting_.comm);
  }
}

std::optional<GradientBlock> OrderedSums::open(std::size_t s, std::size_t lane) {
  if (s == 0) return own_;
  arrive(lane, s - 1);
  // Sums of rows that this rank does not read pass by.
  if (slices_[lane].keys[s].held == 0 || sums_[lane].hop(s - 1).arriving.empty()) return std::nullopt;
  return sums_[lane].begin(s);
}

/// Sends what step s leaves behind, and asks for what the next one needs.
void OrderedSums::leave(std::size_t s, std::size_t lane) {
  SliceSums& sums = sums_[lane];
  sums.leave(s);
  core::HopMetrics& hop = setting_.hop(s + 1);
  std::vector<comm::Message> sends, receives;
  core::timed_wait(hop, [&] {
    sends = sums.outgoing(s);
    receives = sums.incoming(s);
    exchanges_[lane].start(sends, receives, hop_tag(s, lane + 1));
    if (mode_ == HopMode::blocking) exchanges_[lane].wait();
  });
  for (const comm::Message& message : sends) hop.bytes_sent += message.block.bytes();
  for (const comm::Message& message : receives) hop.bytes_received += message.block.bytes();
  hop.rows_received += pattern::head_rows(sums.hop(s).arriving) + pattern::head_rows(sums.hop(s).returned);
}

void OrderedSums::arrive(std::size_t lane, std::size_t s) {
  const comm::Place here(fmt::format("gradients of step {}", s));
  core::timed_wait(setting_.hop(s + 1), [&] { exchanges_[lane].wait(); });
  sums_[lane].settle(s);
}

void OrderedSums::progress() {
  for (comm::Exchange& exchange : exchanges_) exchange.progress();
}

void OrderedSums::finish() {
  exchanges_.clear();
  sums_.clear();
}

namespace {

MakeSums ordered(HopMode mode) {
  return
      [=](const Setting& setting, const KeySource& keys) { return std::make_unique<OrderedSums>(setting, keys, mode); };
}

Prediction predict_hops_in_order(const Problem& problem, const Partition& partition, const MakeLanes& make_lanes,
                                 HopMode mode, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const Index slices = ordered_slices(mode, partition.size());
  Prediction all;
  all.kept = kept_of(problem, rows);
  Index most = 0;
  for (const Problem& round : passes(problem)) {
    const HopPlan plan = plan_sliced_hops(make_lanes, round, partition, rank, nullptr, slices);
    Prediction one =
        predict_sums(round, ordered_slices_of(round, partition, rank, plan.lanes.size(),
                                              [&](std::size_t s, std::size_t i) { return plan.form(s, i); }));
    for (const HopPlan::Lane& lane : plan.lanes) {
      one.memory_bytes += buffer_bytes(round, lane.hops).total();
      add_hops(round, lane.hops, one);
    }
    all.bytes_sent += one.bytes_sent;
    all.bytes_received += one.bytes_received;
    most = std::max(most, one.memory_bytes);
  }
  all.memory_bytes = backward_work(problem, rows.count(), most);
  return all;
}

Prediction predict_gathered_in_order(const Problem& problem, const Partition& partition, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const Index own = rows.count(), foreign = problem.kv_block_bytes(problem.shape.sequence - own);
  const std::vector<KeyBlock> blocks = gathered_blocks(problem, partition, rank, {}, {});
  const auto form = [&](std::size_t s, std::size_t) {
    return blocks[std::size_t(core::wrap(rank - int(s), int(partition.size())))];
  };
  Prediction all{0, problem.kv_block_bytes(own) * Index(partition.size() - 1), foreign, kept_of(problem, rows)};
  Index most = 0;
  for (const Problem& round : passes(problem)) {
    const Prediction sums = predict_sums(round, ordered_slices_of(round, partition, rank, 1, form));
    all.bytes_sent += sums.bytes_sent;
    all.bytes_received += sums.bytes_received;
    most = std::max(most, sums.memory_bytes);
  }
  all.memory_bytes = backward_work(problem, own, foreign + most);
  return all;
}

}  // namespace

BackwardPass hops_in_order(HopMode mode, const MakeLanes& make_lanes) {
  return {[=](const Setting& setting) {
            const Index slices = ordered_slices(mode, setting.partition.size());
            return std::make_unique<HopKeys>(setting, mode, [=](const Problem& round) {
              return plan_sliced_hops(make_lanes, round, setting.partition, setting.rank(), setting.tensors.kv.data(),
                                      slices);
            });
          },
          ordered(mode),
          [=](const Problem& problem, const Partition& partition, int rank) {
            return predict_hops_in_order(problem, partition, make_lanes, mode, rank);
          }};
}

BackwardPass gathered_in_order() {
  return {[](const Setting& setting) { return std::make_unique<GatheredKeys>(setting, GatherOrder::all_first); },
          ordered(HopMode::blocking), predict_gathered_in_order};
}

}  // namespace annulus::strategies
