// Keys that are at hand from the beginning.
#pragma once

#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// The rank's own rows and nothing else.
class OwnKeys final : public KeySource {
 public:
  explicit OwnKeys(const Setting& setting) : block_(own_block(setting.tensors, setting.rows())) {}

  void begin(const Problem&) override {}
  std::size_t steps() const override { return 1; }
  std::string place(std::size_t) const override { return "own rows"; }
  const KeyBlock* block(std::size_t, std::size_t) const override { return &block_; }
  KeyBlock form(std::size_t, std::size_t) const override { return block_; }

 private:
  const KeyBlock block_;
};

}  // namespace annulus::strategies
