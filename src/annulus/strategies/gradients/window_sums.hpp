// Each rank adds its sums for other ranks' rows directly to sums in the MPI windows of these rows' owners.
#pragma once

#include <array>
#include <deque>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/keys/window_plan.hpp"
#include "annulus/strategies/keys/window_rows.hpp"

namespace annulus::strategies {

class WindowSumRound final : public SumRound {
 public:
  explicit WindowSumRound(const WindowRound& keys) : keys_(keys) {}

  std::size_t steps(int rank) const override { return keys_.steps(rank); }
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override { return {total(block_bytes(rank))}; }

  const WindowRound& keys() const { return keys_; }
  static constexpr std::size_t count = 2;  ///< number of blocks: the kernel adds to one block while the other is sent
  std::array<Index, count> block_bytes(int rank) const;

 private:
  const WindowRound& keys_;
};

class WindowSumPlan final : public SumPlan {
 public:
  WindowSumPlan(const WindowPlan& keys, std::size_t rounds) : keys_(keys) {
    for (std::size_t i = 0; i < rounds; ++i) rounds_.emplace_back(keys.round(i));
  }
  const WindowSumRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<GradientSink> sink(const PassContext& context) const override;
  /// Bytes of the sums that other ranks make for this rank's rows; 0 if no other rank reads any of these rows.
  Index window_bytes(int rank) const override;
  /// Bytes of a buffer for one of the Problem::sum_parts() arrays of sums in the window. Each array is copied from the
  /// window into the buffer, then added to the own sums.
  Index closing_bytes(int rank) const override { return part_of(window_bytes(rank)); }
  Room room(const LargestMessages& largest) const override;

 private:
  Index part_of(Index window) const { return window / keys_.round(0).problem().sum_parts(); }

  const WindowPlan& keys_;
  std::deque<WindowSumRound> rounds_;
};

/// Ranks add in the order in which they happen to be ready, so the last bits may differ from run to run. Between the
/// constructor and finish() no rank waits for another. In finish() ranks wait until all of them have added.
class WindowSums final : public GradientSink {
 public:
  WindowSums(const PassContext& context, const WindowSumPlan& plan);

  void begin(std::size_t round, const GradientBlock& own) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t channel) override;
  void leave(std::size_t s, std::size_t channel) override;
  void progress() override;
  void settle(std::size_t channel) override;
  void finish() override;
  void close() override { window_.close(); }

 private:
  static constexpr std::size_t count = WindowSumRound::count;
  static std::size_t slot(std::size_t s) { return (s - 1) % count; }
  void wait(std::size_t i);

  const PassContext context_;
  const WindowSumPlan& plan_;
  const WindowRound* keys_ = nullptr;
  comm::Window window_;
  core::HopMetrics& waits() const { return context_.hop(keys_->hops(context_.rank())); }
  GradientBlock own_;
  std::array<core::Buffer, count> blocks_;
  std::deque<comm::WindowAdd> adds_;  // declared after blocks_: accesses end before an error's unwinding frees blocks_
};

/// Makes plans in which K and V are read from MPI windows, and sums are added to other MPI windows.
MakePlans windows_and_sums();

}  // namespace annulus::strategies
