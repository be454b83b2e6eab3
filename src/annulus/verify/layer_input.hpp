// The attention inside a layer as `verify` sees it: q, k, v and dout made in float64, by plain loops, from x, dy and
// the weights. It shares no arithmetic with the layer room: a mistake made there must show here.
#pragma once

#include <array>
#include <map>
#include <span>

#include "annulus/layer/weights.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

class LayerInput : public VerifyInput {
 public:
  /// `weights` are whole on every rank.
  LayerInput(const layer::LayerProblem& problem, const runfile::LayerSettings& settings,
             const store::InspectedFile& file, const layer::Weights& weights);

  Numbers rows(core::TensorId tensor, Interval rows) const override;

  /// Rows of x or dy, (B, rows, E). On this rank alone.
  Numbers x(Interval rows) const { return read_as_double(file_, settings_.x, rows); }
  Numbers dy(Interval rows) const { return read_as_double(file_, settings_.dy, rows); }

  Index width() const { return problem_.width; }
  const layer::LayerProblem& problem() const { return problem_; }
  /// y of attention outputs: out wo + bo.  out (rows, H D), y (rows, E)
  Numbers output(const Numbers& out) const;
  /// dx (E) of a row's dq (H D), dk and dv (Hkv D), rope turned back already.
  Numbers input_gradient(std::span<const double> dq, std::span<const double> dk, std::span<const double> dv) const;
  /// The gradient before the rope of what stands after it: heads of row `position`, any number of them.
  void turn_back(std::span<double> heads, Index position) const { turn(heads, position, -1); }

 private:
  const Numbers& weight(layer::Weight weight) const { return weights_[std::size_t(weight)]; }
  void turn(std::span<double> heads, Index position, double sign) const;
  Numbers project(layer::Weight weight, Interval rows) const;
  Numbers cached(layer::Weight weight, Interval rows) const;

  store::InspectedFile file_;
  runfile::LayerSettings settings_;
  layer::LayerProblem problem_;
  std::array<Numbers, 8> weights_;
  // Rows of k and v, which many queries ask for: by weight and number of the block.
  mutable std::map<std::pair<layer::Weight, Index>, Numbers> blocks_;
  mutable Index cached_bytes_ = 0;
};

}  // namespace annulus::verify
