#include "annulus/store/number_type.hpp"

#include <cstring>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"

namespace annulus::store {

void convert(const Numbers& from, const Numbers& to, core::Index count) {
  if (from.type == to.type) {
    std::memcpy(to.data, from.data, std::size_t(count) * bytes_of(to.type));
    return;
  }
  core::require(from.type.dtype() && to.type.dtype(),
                [&] { return fmt::format("{} as {}", name_of(from.type), name_of(to.type)); });
  core::with_type(*from.type.dtype(), [&](auto stored) {
    const auto* in = static_cast<const decltype(stored)*>(from.data);
    core::with_type(*to.type.dtype(), [&](auto wanted) {
      auto* out = static_cast<decltype(wanted)*>(to.data);
      for (core::Index i = 0; i < count; ++i) core::store_as(out[i], core::load_as<double>(in[i]));
    });
  });
}

}  // namespace annulus::store
