#include "annulus/strategies/keys/hop_keys.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

std::size_t HopPlan::hops() const {
  std::size_t most = 0;
  for (const Lane& lane : lanes) most = std::max(most, lane.hops.size());
  return most;
}

HopPlan plan_hops(const MakeLanes& make_lanes, const Problem& round, const pattern::Partition& partition, int rank,
                  const KeyBlock& own) {
  HopPlan plan;
  for (pattern::Hops& hops : make_lanes(round.layout(), partition, rank)) {
    plan.lanes.push_back({std::move(hops), own, plan.lanes.empty()});
  }
  return plan;
}

Lanes ring_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::ring_hops(layout, partition, rank, 1, int(partition.size()) - 1)};
}

HopKeys::HopKeys(const Setting& setting, HopMode mode, MakePlan make_plan)
    : setting_(setting), mode_(mode), make_plan_(std::move(make_plan)), exchange_(setting.comm) {}

void HopKeys::begin(const Problem& round) {
  // Rounds share tags: between two ranks messages arrive in the order in which they were sent, round after round.
  lanes_.clear();
  plan_ = make_plan_(round);
  for (const HopPlan::Lane& lane : plan_.lanes) lanes_.emplace_back(setting_.problem, lane.hops, lane.own);
}

std::string HopKeys::place(std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("hop {} of {}", s, plan_.hops());
}

const KeyBlock* HopKeys::block(std::size_t s, std::size_t lane) const {
  if (s == 0) return plan_.lanes[lane].computes_own ? &plan_.lanes[lane].own : nullptr;
  return lanes_[lane].has(s - 1) ? &lanes_[lane].in_hand() : nullptr;
}

KeyBlock HopPlan::form(std::size_t s, std::size_t lane) const {
  const Lane& way = lanes[lane];
  if (s == 0) return way.own;
  if (s > way.hops.size()) return {};
  const pattern::Cargo& cargo = way.hops[s - 1].receive;
  return {nullptr, pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
}

HopKeys::Messages HopKeys::outgoing(std::size_t h) const {
  Messages messages;
  for (const Lane& lane : lanes_) {
    if (lane.has(h)) messages.push_back(lane.outgoing(h));
  }
  return messages;
}

HopKeys::Messages HopKeys::incoming(std::size_t h) const {
  Messages messages;
  for (const Lane& lane : lanes_) {
    if (lane.has(h)) messages.push_back(lane.incoming(h));
  }
  return messages;
}

void HopKeys::start(std::size_t s) {
  if (mode_ == HopMode::blocking || s >= plan_.hops()) return;
  // Starting to send takes time where device memory is staged: that part of communication nothing hides. Collecting the
  // rows is not waiting.
  const Messages sends = outgoing(s), receives = incoming(s);
  core::timed_wait(setting_.hop(s + 1), [&] { exchange_.start(sends, receives, hop_tag(s)); });
}

void HopKeys::complete(std::size_t s) {
  if (s >= plan_.hops()) return;
  const comm::Place here(place(s + 1));
  core::HopMetrics& metrics = setting_.hop(s + 1);
  if (mode_ == HopMode::blocking) {
    const Messages sends = outgoing(s), receives = incoming(s);
    core::timed_wait(metrics, [&] { exchange_.run_blocking(sends, receives, hop_tag(s)); });
  } else {
    core::timed_wait(metrics, [&] { exchange_.wait(); });
  }
  for (Lane& lane : lanes_) {
    if (lane.has(s)) lane.take(s, metrics);
  }
}

namespace {

Prediction predict_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& make_lanes,
                        int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction prediction;
  prediction.kept = kept_of(problem, rows);
  Index most = 0;
  for (const Problem& round : passes(problem)) {
    Index buffers = 0;
    for (const pattern::Hops& hops : make_lanes(round.layout(), partition, rank)) {
      buffers += buffer_bytes(round, hops).total();
      add_hops(round, hops, prediction);
    }
    most = std::max(most, buffers);
  }
  prediction.memory_bytes = local_memory(problem, rows.count(), most);
  return prediction;
}

}  // namespace

ForwardPass hops(HopMode mode, const MakeLanes& make_lanes) {
  return {[=](const Setting& setting) {
            return std::make_unique<HopKeys>(setting, mode, [=](const Problem& round) {
              return plan_hops(make_lanes, round, setting.partition, setting.rank(),
                               own_block(setting.tensors, setting.rows()));
            });
          },
          [=](const Problem& problem, const pattern::Partition& partition, int rank) {
            return predict_hops(problem, partition, make_lanes, rank);
          }};
}

}  // namespace annulus::strategies
