// Reads K and V from other ranks' memory, two owners ahead of the kernel.
#pragma once

#include "annulus/strategies/keys/window_plan.hpp"
#include "annulus/strategies/keys/window_rows.hpp"

namespace annulus::strategies {

/// Exposes the rank's own rows in an MPI window and reads rows from the windows of other ranks.
class WindowKeys final : public ReadKeys {
 public:
  WindowKeys(const PassContext& context, const WindowPlan& plan);

  void begin(std::size_t round) override;
  void progress() override;
  void finish() override;
  void close() override { window_.close(); }

 private:
  void start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into, core::HopMetrics& metrics) override;
  void end_read(std::size_t slot) override { reads_[slot].wait(); }

  const WindowPlan& plan_;
  comm::Window window_;
  std::deque<comm::WindowRead> reads_;  // freed first, so that reads end before unwinding frees their buffers
};

}  // namespace annulus::strategies
