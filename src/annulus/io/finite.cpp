#include "annulus/io/finite.hpp"

#include <algorithm>

#include "annulus/core/storage.hpp"

namespace annulus::io {
namespace {

using core::Index;

/// A number is finite when its exponent bits are not all ones; tested on the bits, which is the same for all four types
/// and vectorises. `value` turns the element into a double.
template <class Bits, class Stored>
std::optional<NonFinite> find(const Stored* numbers, Index count, Bits exponent) {
  static_assert(sizeof(Bits) == sizeof(Stored));
  const Bits* bits = reinterpret_cast<const Bits*>(numbers);
  constexpr Index block = 4096;  // small enough to search again when something is wrong in it
  for (Index begin = 0; begin < count; begin += block) {
    const Index end = std::min(count, begin + block);
    Bits wrong = 0;
    for (Index i = begin; i < end; ++i) wrong = Bits(wrong | Bits((bits[i] & exponent) == exponent));
    if (wrong == 0) continue;
    const Bits* found = std::find_if(bits + begin, bits + end, [=](Bits b) { return (b & exponent) == exponent; });
    return NonFinite{found - bits, core::load_as<double>(numbers[found - bits])};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, Index count) {
  switch (type) {
    case core::DType::float64:
      return find<std::uint64_t>(static_cast<const double*>(numbers), count, 0x7ff0000000000000u);
    case core::DType::float32:
      return find<std::uint32_t>(static_cast<const float*>(numbers), count, 0x7f800000u);
    case core::DType::float16:
      return find<std::uint16_t>(static_cast<const core::Half*>(numbers), count, std::uint16_t(0x7c00u));
    case core::DType::bfloat16:
      return find<std::uint16_t>(static_cast<const core::BFloat16*>(numbers), count, std::uint16_t(0x7f80u));
  }
  return std::nullopt;
}

}  // namespace annulus::io
