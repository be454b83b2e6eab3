#include "annulus/strategies/gradients/hop_sums.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

GradientLanes ring_gradient_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::ring_gradients(layout, partition, rank, 1, int(partition.size()) - 1)};
}

HopSums::HopSums(const Setting& setting, const HopKeys& keys, MakeGradients make_gradients)
    : setting_(setting), keys_(keys), make_gradients_(std::move(make_gradients)), exchange_(setting.comm) {}

void HopSums::begin(const Problem& round, const GradientBlock& own) {
  own_ = own;
  gradients_ = make_gradients_(round.layout(), setting_.partition, setting_.rank());
  lanes_.clear();
  for (std::size_t lane = 0; lane < keys_.lanes(); ++lane) {
    lanes_.emplace_back(setting_.problem, keys_.plan().lanes[lane].hops, gradients_[lane], setting_.rows(), own_);
  }
}

std::size_t HopSums::steps() const {
  const std::size_t hops = keys_.plan().hops();
  return hops > 0 ? hops + 2 : 1;  // the last step only brings sums home
}

HopSums::Messages HopSums::messages(std::size_t s, GradientMessages (GradientLane::*which)(std::size_t)) {
  Messages all;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!moves(lane, s)) continue;
    const GradientMessages gradients = (lanes_[lane].*which)(s - 2);
    all.near.push_back(gradients.near);
    all.home.push_back(gradients.home);
  }
  return all;
}

void HopSums::start(Messages sends, Messages receives, std::size_t s) {
  sends.near.insert(sends.near.end(), sends.home.begin(), sends.home.end());
  receives.near.insert(receives.near.end(), receives.home.begin(), receives.home.end());
  core::timed_wait(waits(s), [&] { exchange_.start(sends.near, receives.near, hop_tag(s, 1)); });
}

/// Collecting rows is not waiting; starting to send is, where device memory is staged.
void HopSums::start(std::size_t s) {
  if (keys_.mode() == HopMode::blocking) return;
  start(messages(s, &GradientLane::outgoing), messages(s, &GradientLane::incoming), s);
}

std::optional<GradientBlock> HopSums::open(std::size_t s, std::size_t lane) {
  if (s == 0) return own_;
  if (!lanes_[lane].has(s - 1)) return std::nullopt;
  return lanes_[lane].begin(s - 1);
}

void HopSums::complete(std::size_t s) {
  const comm::Place here("gradients of step " + std::to_string(s));
  if (keys_.mode() == HopMode::blocking) {
    // Even and odd ranks take turns between neighbours; home may be any rank, where turns could wait for each other for
    // ever.
    const Messages sends = messages(s, &GradientLane::outgoing), receives = messages(s, &GradientLane::incoming);
    core::timed_wait(waits(s), [&] { exchange_.run_blocking(sends.near, receives.near, hop_tag(s, 1)); });
    start({{}, sends.home}, {{}, receives.home}, s);
  }
  core::timed_wait(waits(s), [&] { exchange_.wait(); });
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (moves(lane, s)) lanes_[lane].settle(s - 2, setting_.hop(s - 1));
  }
}

namespace {

Prediction predict_hops_and_sums(const Problem& problem, const pattern::Partition& partition,
                                 const MakeLanes& make_lanes, const MakeGradients& make_gradients, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const Lanes lanes = make_lanes(problem.layout(), partition, rank);
  const GradientLanes gradients = make_gradients(problem.layout(), partition, rank);
  Prediction prediction;
  prediction.kept = kept_of(problem, rows);
  std::size_t steps = 2;
  for (const pattern::Hops& hops : lanes) steps = std::max(steps, hops.size() + 2);
  std::vector<Index> buffers(steps);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const BufferBytes of_keys = buffer_bytes(problem, lanes[l]);
    const GradientBytes of_gradients = gradient_buffer_bytes(problem, lanes[l], gradients[l]);
    for (std::size_t s = 0; s < steps; ++s) buffers[s] += of_keys.during(s) + of_gradients.during(s);
    add_hops(problem, lanes[l], prediction);
    add_gradient_hops(problem, gradients[l], prediction);
  }
  prediction.memory_bytes = backward_work(problem, rows.count(), *std::max_element(buffers.begin(), buffers.end()));
  return prediction;
}

}  // namespace

BackwardPass hops_and_sums(HopMode mode, const MakeLanes& make_lanes, const MakeGradients& make_gradients) {
  return {hops(mode, make_lanes).keys,
          [=](const Setting& setting, const KeySource& keys) {
            return std::make_unique<HopSums>(setting, dynamic_cast<const HopKeys&>(keys), make_gradients);
          },
          [=](const Problem& problem, const pattern::Partition& partition, int rank) {
            return predict_hops_and_sums(problem, partition, make_lanes, make_gradients, rank);
          }};
}

}  // namespace annulus::strategies
