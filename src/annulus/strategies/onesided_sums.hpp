// How a rank of `onesided` adds its sums for other ranks' rows into these ranks' windows.
#pragma once

#include <array>
#include <deque>

#include "annulus/strategies/onesided_window.hpp"

namespace annulus::strategies {

/// Use for read i, which `hop` brings: begin(i), compute into the block, start(i); at the end finish(). Arguments are
/// not copied.
class RemoteSums {
 public:
  RemoteSums(const Problem& problem, const pattern::Partition& partition, const pattern::Hops& hops,
             const comm::Window& window);

  /// Bytes of its blocks.
  static Index bytes(const Problem& problem, const pattern::Hops& hops);

  /// Zeros for the rows of read i; waits until the block is free.
  GradientBlock begin(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics);
  /// Sends the sums for read i to their owner.
  void start(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics);
  /// Returns when all blocks are free.
  void finish(core::HopMetrics& metrics);
  void progress();

 private:
  static constexpr std::size_t count = 2;  // one in which the kernel adds up, one on its way
  static std::array<Index, count> block_bytes(const Problem& problem, const pattern::Hops& hops);
  void wait(std::size_t i, core::HopMetrics& metrics);

  const Problem& problem_;
  const pattern::Partition& partition_;
  std::array<core::Buffer, count> blocks_;
  std::deque<comm::WindowAdd> adds_;  // behind the blocks: when an error unwinds, accesses end before they do
};

}  // namespace annulus::strategies
