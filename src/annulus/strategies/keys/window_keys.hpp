// K and V read out of other ranks' memory, a few owners ahead of the kernel.
#pragma once

#include "annulus/strategies/keys/window_plan.hpp"
#include "annulus/strategies/keys/window_rows.hpp"

namespace annulus::strategies {

/// Exposes the rank's own rows and reads those of the others.
class WindowKeys final : public SourceOf<WindowRound> {
 public:
  WindowKeys(const Setting& setting, const WindowPlan& plan);

  void begin(std::size_t round) override;
  const KeyBlock* block(std::size_t s, std::size_t) const override { return s == 0 ? &own_ : &in_hand_; }
  void start(std::size_t s) override;
  void progress() override;
  void complete(std::size_t s) override;
  void finish() override;
  void close() override { window_.close(); }

 private:
  static constexpr std::size_t slots = WindowRound::slots;
  std::size_t reads() const { return round_->steps(setting_.rank()) - 1; }
  /// Of the block of step i + 1.
  void start_read(std::size_t i);

  const WindowPlan& plan_;
  const KeyBlock own_;
  comm::Window window_;
  std::size_t started_ = 0;
  std::array<KeyBlock, slots> blocks_;  // read i lands in block i mod slots
  KeyBlock in_hand_;
  std::array<core::Buffer, slots> buffers_;
  std::deque<comm::WindowRead> reads_;  // behind the buffers: when an error unwinds, reads end before they do
};

}  // namespace annulus::strategies
