// Reads K and V from a store, two blocks ahead of the kernel.
#pragma once

#include "annulus/strategies/keys/stream_plan.hpp"
#include "annulus/strategies/stored_read.hpp"

namespace annulus::strategies {

class StreamKeys final : public ReadKeys {
 public:
  StreamKeys(const PassContext& context, const StreamPlan& plan) : ReadKeys(context), plan_(plan) {}

  void begin(std::size_t round) override { begin_round(plan_.round(round)); }

 private:
  void start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into, core::HopMetrics& metrics) override;
  void end_read(std::size_t slot) override { reads_[slot].wait(); }

  const StreamPlan& plan_;
  std::array<StoredRead, slots> reads_;  // freed before the buffers of ReadKeys, so that reads end first
};

}  // namespace annulus::strategies
