#include "annulus/strategies/cargo.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

/// The source's stretch that a stretch of the cargo comes from: the owner's interval is the same in every block.
std::size_t stretch_of(const KeyBlock& source, const pattern::Stretch& wanted) {
  const auto& stretches = source.rows.stretches();
  const std::size_t i = source.rows.first_behind(wanted.rows.begin);
  core::require(i < stretches.size() && stretches[i].rows == wanted.rows,
                [] { return "a block lacks the rows that it should pass on"; });
  return i;
}

}  // namespace

Index cargo_bytes(const Problem& problem, const pattern::Cargo& cargo) {
  return 2 * problem.shape.batch * pattern::head_rows(cargo) * problem.head_row_bytes();
}

std::vector<kernels::RowCopy> collect(const Problem& problem, const KeyBlock& source, const pattern::Cargo& cargo) {
  // In a raw block a head's next row lies Hkv head rows further on; in a packed block it follows at once.
  const bool raw = !source.rows.is_packed();
  const Index apart = raw ? problem.shape.kv_heads : 1;
  std::vector<kernels::RowCopy> copies;
  Index to = 0;
  for (const pattern::Stretch& stretch : cargo) {
    const std::size_t i = stretch_of(source, stretch);
    for (std::size_t kv = 0; kv < stretch.heads.size(); ++kv) {
      for (const pattern::Part& part : stretch.heads[kv]) {
        const auto* held = source.rows.find(i, Index(kv), part);
        core::require(held != nullptr, [] { return "a block lacks a part that it should pass on"; });
        const Index row = held->stored + (part.first - held->part.first) / held->part.stride;
        const Index stride = part.count > 1 ? part.stride / held->part.stride : 1;
        copies.push_back({row * apart + (raw ? Index(kv) : 0), stride * apart, part.count, to});
        to += part.count;
      }
    }
  }
  return copies;
}

}  // namespace annulus::strategies
