// K and V of all ranks on every rank: O(n) memory.
#pragma once

#include <optional>

#include "annulus/comm/gather.hpp"
#include "annulus/strategies/keys/gathered_blocks.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// All rows in one block and one step, after one collective.
class CollectiveKeys final : public KeySource {
 public:
  explicit CollectiveKeys(const Setting& setting);

  void begin(const Problem& round) override;
  std::size_t steps() const override { return 1; }
  std::string place(std::size_t) const override { return "all rows"; }
  const KeyBlock* block(std::size_t, std::size_t) const override { return &block_; }
  KeyBlock form(std::size_t, std::size_t) const override { return block_; }
  void finish() override { all_ = {}, block_ = {}; }

 private:
  const Setting setting_;
  core::Buffer all_;
  KeyBlock block_;
};

/// In which order a rank works on the rows of the others, and whether it waits for all of them first.
///   all_first   rank - 1, rank - 2, ...: when all have come
///   in_order    the same, each as soon as it is there
///   as_they_come
enum class GatherOrder { all_first, in_order, as_they_come };

/// Every rank's rows a block of their own. Hop d of the metrics is the rows of rank - d, whenever they come.
class GatheredKeys final : public KeySource {
 public:
  GatheredKeys(const Setting& setting, GatherOrder order);

  void begin(const Problem& round) override;
  std::size_t steps() const override;
  std::size_t hops() const override { return setting_.partition.size(); }
  std::size_t hop(std::size_t s) const override { return std::size_t(core::wrap(setting_.rank() - owner(s), ranks())); }
  std::string place(std::size_t s) const override;
  const KeyBlock* block(std::size_t s, std::size_t) const override { return &blocks_[std::size_t(owner(s))]; }
  KeyBlock form(std::size_t s, std::size_t) const override { return blocks_[std::size_t(owner(s))]; }
  void progress() override { gather_.progress(); }
  void complete(std::size_t s) override;
  void finish() override;

 private:
  int ranks() const { return int(setting_.partition.size()); }
  /// Of the rows of step s.
  int owner(std::size_t s) const;
  /// Waits for the rows of a rank, or of any.
  void take(int wanted);
  void take_any(core::HopMetrics& waits);

  const Setting setting_;
  const GatherOrder order_;
  core::Buffer gathered_;
  std::vector<KeyBlock> blocks_;  // of every rank
  std::vector<bool> arrived_;     // of these
  std::vector<int> owners_;       // of the steps, as they come
  comm::Gather gather_;           // behind the buffer: when an error unwinds, messages end before it does
};

ForwardPass gathered_at_once();
ForwardPass gathered_as_they_come();

}  // namespace annulus::strategies
