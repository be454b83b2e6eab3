// Row blocks for tests of messages: every number encodes its owner, part, row and column, so that a misplaced row is
// recognized.
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"
#include "annulus/core/buffer.hpp"

namespace annulus::test {

using core::Index;

inline constexpr Index width = 3;  // numbers in a row
inline constexpr Index row_bytes = width * Index(sizeof(double));

/// The number in (part, row, column) of rank `owner`.
inline double stamp(Index owner, Index part, Index row, Index column) {
  return double(owner) * 1e6 + double(part) * 1e4 + double(row) * 10 + double(column);
}

/// A (parts, held, width) array in memory of the execution space.
struct Block {
  Block(Index block_parts, Index block_held)
      : parts(block_parts), held(block_held), memory("test", parts * held * row_bytes) {
    fill([](Index, Index, Index) { return -1.0; });
  }
  template <class Number>
  void fill(Number&& number) {
    std::vector<double> values;
    for (Index p = 0; p < parts; ++p) {
      for (Index r = 0; r < held; ++r) {
        for (Index c = 0; c < width; ++c) values.push_back(number(p, r, c));
      }
    }
    core::copy_to_device(memory.data(), values.data(), memory.bytes());
  }
  std::vector<double> values() const {
    std::vector<double> all(std::size_t(parts * held * width));
    core::copy_to_host(all.data(), memory.data(), memory.bytes());
    return all;
  }
  double at(Index part, Index row, Index column) const {
    return values()[std::size_t((part * held + row) * width + column)];
  }
  comm::RowBlock rows(core::Interval selected) const { return {memory.data(), parts, held, row_bytes, selected}; }

  Index parts;
  Index held;
  core::Buffer memory;
};

}  // namespace annulus::test
