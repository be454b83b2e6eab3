#include "annulus/layer/heads.hpp"

namespace annulus::layer {

HeadTensors::HeadTensors(const strategies::Problem& problem, Index rows, const core::Buffer& q, const core::Buffer& kv)
    : problem_(problem) {
  const core::Shape& s = problem.shape;
  const Index all_rows = s.batch * rows, kv_columns = s.kv_heads * s.head_dim;
  const Matrix both = matrix_at(kv.data(), problem.type, 2 * all_rows, kv_columns);  // K of all batch entries, then V
  matrices_ = {matrix_at(q.data(), problem.type, all_rows, s.heads * s.head_dim), both.take_rows({0, all_rows}),
               both.take_rows({all_rows, 2 * all_rows})};
}

void HeadTensors::turn(const std::optional<double>& base, const pattern::StoredRows& rows, Turn turn) const {
  if (!base) return;
  const core::Shape& s = problem_.shape;
  const auto turn_heads = [&](Projection projection, Index heads) {
    rope(core::contiguous_view((*this)[projection].data, problem_.type, rows.count(), heads, s.head_dim), s.batch, rows,
         heads, s.head_dim, *base, turn);
  };
  turn_heads(Projection::q, s.heads);
  turn_heads(Projection::k, s.kv_heads);
}

}  // namespace annulus::layer
