// Sums that a rank adds into the memory of the ranks that own the rows.
#pragma once

#include <array>
#include <deque>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

/// Ranks add in whatever order they get there, so the last bits differ from run to run; nobody waits before finish(),
/// where each owner must.
class WindowSums final : public GradientSink {
 public:
  WindowSums(const Setting& setting, const WindowKeys& keys);

  /// Bytes of the buffers.
  static Index bytes(const Problem& problem, const pattern::Hops& hops);

  void begin(const Problem& round, const GradientBlock& own) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t lane) override;
  void leave(std::size_t s, std::size_t lane) override;
  void progress() override;
  void settle(std::size_t lane) override;
  void finish() override;
  void close() override { window_.close(); }

 private:
  static constexpr std::size_t count = 2;  // blocks: one in which the kernel adds up, one on its way
  static std::array<Index, count> block_bytes(const Problem& problem, const pattern::Hops& hops);
  static std::size_t slot(std::size_t s) { return (s - 1) % count; }
  void wait(std::size_t i);

  const Setting setting_;
  const WindowKeys& keys_;
  comm::Window window_;
  GradientBlock own_;
  std::array<core::Buffer, count> blocks_;
  std::deque<comm::WindowAdd> adds_;  // behind the blocks: when an error unwinds, accesses end before they do
};

/// K and V read from windows, sums added into others.
BackwardPass windows_and_sums();

}  // namespace annulus::strategies
