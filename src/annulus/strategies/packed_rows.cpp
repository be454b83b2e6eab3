#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {
namespace {

/// Returns the index of the source's interval that is `wanted`. Every block cuts an owner's rows into the same
/// intervals, so there is exactly one such interval.
std::size_t interval_of(const KeyBlock& source, const pattern::OwnerInterval& wanted) {
  const auto& owned = source.rows.owned();
  const std::size_t i = source.rows.first_ending_after(wanted.rows.begin);
  core::require(i < owned.size() && owned[i].rows == wanted.rows,
                [] { return "a block lacks the rows that it should send on"; });
  return i;
}

}  // namespace

Index packed_bytes(const Problem& problem, const pattern::PackedRows& packed) {
  return problem.kv_parts() * pattern::head_rows(packed) * problem.head_kv_bytes();
}

std::vector<kernels::RowCopy> collect(const Problem& problem, const KeyBlock& source,
                                      const pattern::PackedRows& packed) {
  // Counted in rows of one head, the next row of a head is Hkv rows further on in a raw block, 1 row in a packed block.
  const bool raw = !source.rows.is_packed();
  const Index apart = raw ? problem.shape.kv_heads : 1;
  std::vector<kernels::RowCopy> copies;
  Index to = 0;
  for (const pattern::OwnerInterval& owned : packed) {
    const std::size_t i = interval_of(source, owned);
    for (std::size_t kv = 0; kv < owned.heads.size(); ++kv) {
      for (const pattern::StridedRange& range : owned.heads[kv]) {
        const auto* held = source.rows.find(i, Index(kv), range);
        core::require(held != nullptr, [] { return "a block lacks a range that it should send on"; });
        const Index row = held->stored + (range.first - held->range.first) / held->range.stride;
        const Index stride = range.count > 1 ? range.stride / held->range.stride : 1;
        copies.push_back({row * apart + (raw ? Index(kv) : 0), stride * apart, range.count, to});
        to += range.count;
      }
    }
  }
  return copies;
}

}  // namespace annulus::strategies
