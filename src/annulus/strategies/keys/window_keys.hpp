// K and V read out of other ranks' memory, a few owners ahead of the kernel.
#pragma once

#include <array>
#include <deque>

#include "annulus/strategies/keys/key_source.hpp"
#include "annulus/strategies/keys/window_rows.hpp"

namespace annulus::strategies {

/// Exposes the rank's own rows and reads those of the others, in the order of the rotation: rank - 1, rank - 2, ...;
/// owners of whom nothing is read are no step. Hop d of the metrics is what comes from rank - d.
class WindowKeys final : public KeySource {
 public:
  explicit WindowKeys(const Setting& setting);

  /// Bytes of the buffers.
  static Index bytes(const Problem& problem, const pattern::Hops& hops);

  void begin(const Problem& round) override;
  std::size_t steps() const override { return order_.size() + 1; }
  std::size_t hops() const override { return hops_.size() + 1; }
  std::size_t hop(std::size_t s) const override { return s == 0 ? 0 : order_[s - 1] + 1; }
  std::string place(std::size_t s) const override;
  const KeyBlock* block(std::size_t s, std::size_t) const override { return s == 0 ? &own_ : &in_hand_; }
  KeyBlock form(std::size_t s, std::size_t lane) const override;
  void start(std::size_t s) override;
  void progress() override;
  void complete(std::size_t s) override;
  void finish() override;
  void close() override { window_.close(); }

  /// What step s > 0 reads, and from whom.
  const pattern::Hop& read(std::size_t s) const { return hops_[order_[s - 1]]; }
  const pattern::Hops& all() const { return hops_; }

 private:
  static constexpr std::size_t depth = 2;          // reads in flight while the kernel works on a block
  static constexpr std::size_t slots = depth + 1;  // buffers: for those, and for the block in hand
  static std::array<Index, slots> slot_bytes(const Problem& problem, const pattern::Hops& hops);
  void start_read(std::size_t i);

  const Setting setting_;
  const KeyBlock own_;
  comm::Window window_;
  pattern::Hops hops_;
  std::vector<std::size_t> order_;  // hops that bring anything; read i is hop order_[i]
  std::size_t started_ = 0;
  KeyBlock in_hand_;
  std::array<core::Buffer, slots> buffers_;
  std::deque<comm::WindowRead> reads_;  // behind the buffers: when an error unwinds, reads end before they do
};

/// Own rows, then what is read from each owner.
ForwardPass read_from_windows();

}  // namespace annulus::strategies
