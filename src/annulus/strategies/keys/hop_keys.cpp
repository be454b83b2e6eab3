#include "annulus/strategies/keys/hop_keys.hpp"

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

void HopKeys::begin(std::size_t round) {
  // Rounds share tags: between two ranks messages arrive in the order in which they were sent, round after round.
  lanes_.clear();
  round_ = &plan_.round(round);
  for (std::size_t lane = 0; lane < round_->lanes(); ++lane) {
    lanes_.emplace_back(*round_, lane, setting_.rank(), setting_.tensors.kv.data());
  }
}

HopKeys::Messages HopKeys::messages(std::size_t h) {
  Messages all;
  for (HopLane& lane : lanes_) {
    if (!lane.has(h)) continue;
    lane.begin(h);
    all.sends.push_back(lane.outgoing());
    all.receives.push_back(lane.incoming());
  }
  return all;
}

void HopKeys::start(std::size_t s) {
  if (plan_.mode() == HopMode::blocking || s + 1 >= round_->steps(setting_.rank())) return;
  // Starting to send takes time where device memory is staged: that part of communication nothing hides. Collecting the
  // rows is not waiting.
  const Messages all = messages(s);
  core::timed_wait(setting_.hop(s + 1), [&] { exchange_.start(all.sends, all.receives, hop_tag(s)); });
}

void HopKeys::complete(std::size_t s) {
  if (s + 1 >= round_->steps(setting_.rank())) return;
  const comm::Scope here(place(s + 1));
  core::HopMetrics& metrics = setting_.hop(s + 1);
  if (plan_.mode() == HopMode::blocking) {
    const Messages all = messages(s);
    core::timed_wait(metrics, [&] { exchange_.run_blocking(all.sends, all.receives, hop_tag(s)); });
  } else {
    core::timed_wait(metrics, [&] { exchange_.wait(); });
  }
  for (HopLane& lane : lanes_) {
    if (lane.has(s)) lane.take(s, metrics);
  }
}

}  // namespace annulus::strategies
