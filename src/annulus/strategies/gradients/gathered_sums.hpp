// Sums that go back to their owners rank by rank, where every rank has all keys.
#pragma once

#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/gradients/gradient_sink.hpp"

namespace annulus::strategies {

/// Step d works on the rows of rank - d; its sums travel during the next step, or behind it.
class GatheredSums final : public GradientSink {
 public:
  GatheredSums(const Setting& setting, const KeySource& keys, HopMode mode);

  /// Bytes of the buffers.
  static Index bytes(const Problem& problem, const pattern::Partition& partition, int rank);

  void begin(const Problem& round, const GradientBlock& own) override;
  std::size_t steps() const override { return setting_.partition.size() + 1; }
  void start(std::size_t s) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t lane) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { blocks_ = {}, incoming_ = {}; }

 private:
  /// Sums of step d go to rank - d, those for the own rows come from rank + d.
  void exchange(std::size_t d);
  int peer(Index d) const { return core::wrap(setting_.rank() + int(d), int(setting_.partition.size())); }
  GradientBlock block(std::size_t d) const { return {blocks_[d % 2].data(), keys_.form(d, 0).held, false}; }

  const Setting setting_;
  const KeySource& keys_;
  const HopMode mode_;
  GradientBlock own_;
  std::array<core::Buffer, 2> blocks_;  // of steps d and d + 1
  core::Buffer incoming_;
  comm::Exchange exchange_;  // behind the buffers: when an error unwinds, messages end before their buffers do
};

/// All K and V on every rank, one rank's after another's.
BackwardPass gathered_gradients(HopMode mode);

}  // namespace annulus::strategies
