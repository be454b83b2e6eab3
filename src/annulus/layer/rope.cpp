#include "annulus/layer/rope.hpp"

#include <Kokkos_Core.hpp>
#include <cmath>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/layer/elements.hpp"

namespace annulus::layer {
namespace {

/// Rotates pair d of one row by the same angle in all batch entries and heads. `row` counts from an interval's start.
template <class Number>
struct TurnRow {
  core::TensorView tensor;
  Index batch, heads, head_dim;
  Index first_row;   // index of the interval's first row in `tensor`
  Index position;    // position of the interval's first row in the sequence
  double log2_base;  // base^(-2 d / D) = 2^(-2 d / D log2 base)
  double sign;       // -1 rotates back

  KOKKOS_FUNCTION void operator()(const Index row, const Index d) const {
    const double angle = double(position + row) * core::exp2(-2.0 * double(d) / double(head_dim) * log2_base);
    const double c = core::cos(angle), s = sign * core::sin(angle);
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        Number* pair = static_cast<Number*>(tensor.data) + b * tensor.batch_stride +
                       (first_row + row) * tensor.row_stride + h * tensor.head_stride + d;
        const double x = core::load_as<double>(pair[0]), y = core::load_as<double>(pair[head_dim / 2]);
        core::store_as(pair[0], c * x - s * y);
        core::store_as(pair[head_dim / 2], s * x + c * y);
      }
    }
  }
};

}  // namespace

void rope(const core::TensorView& tensor, Index batch, const pattern::StoredRows& rows, Index heads, Index head_dim,
          double base, Direction direction) {
  const double sign = direction == Direction::forward ? 1 : -1;
  with_type(tensor.type, [&](auto number) {
    for (std::size_t i = 0; i < rows.intervals().size(); ++i) {
      const core::Interval interval = rows.intervals()[i];
      const TurnRow<decltype(number)> body{tensor,         batch,           heads, head_dim, rows.stored_begin(i),
                                           interval.begin, std::log2(base), sign};
      for_each_element("annulus::rope", interval.size(), head_dim / 2, body);
    }
  });
}

}  // namespace annulus::layer
