// The attention inside a layer, for `verify`: plain loops compute q, k, v and dout in float64 from x, dy and the
// weights. The folder layer shares no code with these loops, so that `verify` finds mistakes in that folder.
#pragma once

#include <array>
#include <map>
#include <span>

#include "annulus/layer/weights.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

class LayerInput : public VerifyInput {
 public:
  /// `weights` are complete on every rank.
  LayerInput(const layer::LayerProblem& problem, const runfile::LayerSettings& settings,
             const store::InspectedFile& file, const layer::Weights& weights);

  Numbers rows(core::StoredTensor tensor, Interval rows) const override;

  /// Reads rows of x or dy, (B, rows, E). Local.
  Numbers x(Interval rows) const { return read_as_double(file_, settings_.x, rows); }
  Numbers dy(Interval rows) const { return read_as_double(file_, settings_.dy, rows); }

  Index width() const { return problem_.width; }
  const layer::LayerProblem& problem() const { return problem_; }
  /// Returns y = out wo + bo for attention outputs: out (rows, H D), y (rows, E).
  Numbers output(const Numbers& out) const;
  /// Returns dx (E) of a row from its dq (H D), dk and dv (Hkv D). Call undo_rope() for dq and dk first.
  Numbers input_gradient(std::span<const double> dq, std::span<const double> dk, std::span<const double> dv) const;
  /// Turns gradients after the rotary embedding (rope) into gradients before it. `heads`: any heads of row `position`.
  void undo_rope(std::span<double> heads, Index position) const { rotate(heads, position, -1); }

 private:
  const Numbers& weight(layer::Weight weight) const { return weights_[std::size_t(weight)]; }
  void rotate(std::span<double> heads, Index position, double sign) const;
  Numbers project(layer::Weight weight, Interval rows) const;
  Numbers cached(layer::Weight weight, Interval rows) const;

  store::InspectedFile file_;
  runfile::LayerSettings settings_;
  layer::LayerProblem problem_;
  std::array<Numbers, 8> weights_;
  // A cache of blocks of rows of k and v, because many queries need them. The cache's key is the weight (wk or wv) and
  // the number of the block.
  mutable std::map<std::pair<layer::Weight, Index>, Numbers> blocks_;
  mutable Index cached_bytes_ = 0;
};

}  // namespace annulus::verify
