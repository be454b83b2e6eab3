#include "annulus/strategies/hop_keys.hpp"

#include <algorithm>

namespace annulus::strategies {

KeyHops::KeyHops(const Problem& problem, HopMode mode, const comm::Communicator& comm)
    : problem_(problem), mode_(mode), exchange_(comm) {}

std::size_t KeyHops::count() const {
  std::size_t count = 0;
  for (const Lane& lane : lanes_) count = std::max(count, lane.count());
  return count;
}

std::vector<comm::Message> KeyHops::outgoing(std::size_t h) const {
  std::vector<comm::Message> messages;
  for (const Lane& lane : lanes_) {
    if (lane.has(h)) messages.push_back(lane.outgoing(h));
  }
  return messages;
}

std::vector<comm::Message> KeyHops::incoming(std::size_t h) const {
  std::vector<comm::Message> messages;
  for (const Lane& lane : lanes_) {
    if (lane.has(h)) messages.push_back(lane.incoming(h));
  }
  return messages;
}

void KeyHops::start(std::size_t h, core::HopMetrics& metrics) {
  if (mode_ == HopMode::blocking) return;
  // Starting to send takes time where device memory is staged: that part of communication nothing hides. Collecting the
  // rows is not waiting.
  const std::vector<comm::Message> sends = outgoing(h), receives = incoming(h);
  core::timed_wait(metrics, [&] { exchange_.start(sends, receives, hop_tag(h)); });
}

void KeyHops::complete(std::size_t h, core::HopMetrics& metrics) {
  if (mode_ == HopMode::blocking) {
    const std::vector<comm::Message> sends = outgoing(h), receives = incoming(h);
    core::timed_wait(metrics, [&] { exchange_.run_blocking(sends, receives, hop_tag(h)); });
  } else {
    core::timed_wait(metrics, [&] { exchange_.wait(); });
  }
  for (Lane& lane : lanes_) {
    if (lane.has(h)) lane.take(h, metrics);
  }
}

std::vector<KeyBlock> KeyHops::blocks(std::size_t h) const {
  std::vector<KeyBlock> blocks;
  for (const Lane& lane : lanes_) {
    if (lane.has(h)) blocks.push_back(lane.in_hand());
  }
  return blocks;
}

}  // namespace annulus::strategies
