// How a rank of `onesided` reads K and V of other ranks, a few owners ahead of the kernel.
#pragma once

#include <array>
#include <deque>
#include <functional>

#include "annulus/strategies/onesided_window.hpp"

namespace annulus::strategies {

/// Reads the blocks of a pass. Read i belongs to hop reads_of(hops)[i]. Arguments are not copied.
class ReadAhead {
 public:
  ReadAhead(const Problem& problem, const pattern::Partition& partition, const pattern::Hops& hops,
            const comm::Window& window, core::RankMetrics& metrics);

  /// Bytes of its buffers.
  static Index bytes(const Problem& problem, const pattern::Hops& hops);

  /// The hop of read i.
  const pattern::Hop& hop(std::size_t i) const { return hops_[order_[i]]; }

  using Work =
      std::function<void(std::size_t step, const KeyBlock& block, const std::string& place, core::HopMetrics& metrics)>;
  /// Own rows, then owner after owner: step s works on read s - 1 while the next reads are under way.
  void walk(const KeyBlock& own, const Work& work);
  /// Lets reads move, while `work` computes.
  void progress();

 private:
  static constexpr std::size_t depth = 2;          // reads under way while the kernel works on a block
  static constexpr std::size_t slots = depth + 1;  // buffers: for those, and for the block in hand
  static std::array<Index, slots> slot_bytes(const Problem& problem, const pattern::Hops& hops);

  core::HopMetrics& metrics(std::size_t i) { return metrics_.hops[order_[i] + 1]; }
  /// Starts read i. Its buffer is free again when the kernel is done with read i - slots.
  void start(std::size_t i);
  /// The block that read i brings; waits for it.
  KeyBlock take(std::size_t i);

  const Problem& problem_;
  const pattern::Partition& partition_;
  const pattern::Hops& hops_;
  const std::vector<std::size_t> order_;
  core::RankMetrics& metrics_;
  std::array<core::Buffer, slots> buffers_;
  std::deque<comm::WindowRead> reads_;  // behind the buffers: when an error unwinds, reads end before they do
};

}  // namespace annulus::strategies
