#include "annulus/strategies/keys/hop_keys.hpp"

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

void HopKeys::begin(std::size_t round) {
  // Rounds can use the same tags, because messages between two ranks arrive in the order in which they were sent.
  channels_.clear();
  round_ = &plan_.round(round);
  for (std::size_t channel = 0; channel < round_->channels(); ++channel) {
    channels_.emplace_back(*round_, channel, context_.rank(), context_.tensors.kv.data());
  }
}

HopKeys::Messages HopKeys::messages(std::size_t h) {
  Messages all;
  for (HopChannel& channel : channels_) {
    if (!channel.has(h)) continue;
    channel.begin(h);
    all.sends.push_back(channel.outgoing());
    all.receives.push_back(channel.incoming());
  }
  return all;
}

void HopKeys::start(std::size_t s) {
  if (plan_.mode() == HopMode::blocking || s + 1 >= round_->steps(context_.rank())) return;
  // Starting the sends takes time if device memory is staged. Nothing hides this part of communication, so it counts as
  // waiting. Collecting the rows does not count as waiting.
  const Messages all = core::in_span("pack", [&] { return messages(s); });
  core::timed_wait(context_.hop(s + 1), "post", [&] { exchange_.start(all.sends, all.receives, hop_tag(s)); });
}

void HopKeys::complete(std::size_t s) {
  if (s + 1 >= round_->steps(context_.rank())) return;
  const comm::Scope doing(scope(s + 1));
  core::HopMetrics& metrics = context_.hop(s + 1);
  if (plan_.mode() == HopMode::blocking) {
    const Messages all = core::in_span("pack", [&] { return messages(s); });
    core::timed_wait(metrics, "exchange", [&] { exchange_.run_blocking(all.sends, all.receives, hop_tag(s)); });
  } else {
    core::timed_wait(metrics, [&] { exchange_.wait(); });
  }
  for (HopChannel& channel : channels_) {
    if (channel.has(s)) channel.take(s, metrics);
  }
}

}  // namespace annulus::strategies
