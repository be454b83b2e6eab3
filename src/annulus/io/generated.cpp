#include "annulus/io/generated.hpp"

#include <fmt/format.h>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/storage.hpp"

namespace annulus::io {
namespace {

/// Numbers of one row of one batch entry.
Index row_numbers_of(const core::Shape& shape, core::TensorId tensor) {
  if (tensor == core::TensorId::dlse) return shape.heads;
  const bool keys = tensor == core::TensorId::k || tensor == core::TensorId::v;
  return (keys ? shape.kv_heads : shape.heads) * shape.head_dim;
}

/// Row-major in the global tensor, so the index of a number does not depend on who makes it.
template <class Stored>
void fill(std::uint64_t seed, const GeneratedTensor& tensor, const std::vector<core::Interval>& rows, Stored* host) {
  for (Index b = 0; b < tensor.batch; ++b) {
    for (const core::Interval& interval : rows) {
      const Index begin = (b * tensor.sequence + interval.begin) * tensor.row_numbers;
      const Index end = (b * tensor.sequence + interval.end) * tensor.row_numbers;
      for (Index i = begin; i < end; ++i) {
        if (i % 65536 == 0) comm::watchdog_progress();  // other ranks may be waiting for this one
        core::store_as<double>(*host++, tensor.scale * core::random_normal(seed, tensor.id, i));
      }
    }
  }
}

}  // namespace

std::optional<Objection> objection_to(const core::Shape& shape) {
  if (shape.heads % shape.kv_heads != 0) {
    return Objection{"kv_heads", fmt::format("{} does not divide the {} heads", shape.kv_heads, shape.heads)};
  }
  // Bytes of the largest tensor must fit 64 bits, with room for sums of several.
  const double bytes =
      8.0 * double(shape.batch) * double(shape.sequence) * double(shape.heads) * double(shape.head_dim);
  if (bytes > 1e18) return Objection{"sequence", fmt::format("{:.2g} bytes per tensor, expected at most 1e18", bytes)};
  return std::nullopt;
}

void fill_tensor(std::uint64_t seed, const GeneratedTensor& tensor, const std::vector<core::Interval>& rows,
                 void* host) {
  switch (tensor.type) {
    case core::DType::float64:
      return fill(seed, tensor, rows, static_cast<double*>(host));
    case core::DType::float32:
      return fill(seed, tensor, rows, static_cast<float*>(host));
    case core::DType::float16:
      return fill(seed, tensor, rows, static_cast<core::Half*>(host));
    case core::DType::bfloat16:
      return fill(seed, tensor, rows, static_cast<core::BFloat16*>(host));
  }
}

void fill_generated(const GenerateSettings& settings, core::TensorId tensor, const std::vector<core::Interval>& rows,
                    void* host) {
  const core::Shape& s = settings.shape;
  const core::DType type = tensor == core::TensorId::dlse ? core::lse_type(settings.type) : settings.type;
  fill_tensor(settings.seed, {tensor, type, s.batch, s.sequence, row_numbers_of(s, tensor)}, rows, host);
}

}  // namespace annulus::io
