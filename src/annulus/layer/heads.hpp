// q, k, v and their gradients as matrices that products read and write.
#pragma once

#include "annulus/layer/layer.hpp"
#include "annulus/layer/matrix.hpp"
#include "annulus/layer/rope.hpp"

namespace annulus::layer {

/// The three that come from x, in the order of their weights wq, wk, wv.
enum class Projection { q, k, v };
inline constexpr std::array<Projection, 3> all_projections{Projection::q, Projection::k, Projection::v};
constexpr Weight weight_of(Projection projection) { return Weight(int(projection)); }

/// q (or dq) and kv (or dkv) of a rank, seen as matrices of B * rows rows, heads side by side in the columns.
class HeadTensors {
 public:
  /// `problem` is that of the rank's heads.
  HeadTensors(const strategies::Problem& problem, Index rows, const core::Buffer& q, const core::Buffer& kv);

  Matrix operator[](Projection projection) const { return matrices_[std::size_t(projection)]; }
  /// Turns q and k; see rope(). Nothing without a base.
  void turn(const std::optional<double>& base, const pattern::StoredRows& rows, Turn turn) const;

 private:
  const strategies::Problem& problem_;
  std::array<Matrix, 3> matrices_;
};

}  // namespace annulus::layer
