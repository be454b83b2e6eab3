// Sink logits: of every head one more key, of value 0, that every row sees which sees any key.
//
// With its score z_h in natural units, lse(x) = ln(exp(z_h) + sum_p mult(x, p) exp(s(x, p))), and out is divided by
// that sum. A running softmax takes the key when all others have been added, because only then is it known which rows
// have seen one; whoever added them, and in how many passes, does not matter. P of all other keys follow from lse, and
//   dz_h = -sum_x exp(z_h - lse(x)) delta_x          (its value is 0, and so is dP)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/exact_sum.hpp"

namespace annulus::kernels {

/// Scores (H) of the keys, finite or -inf (no such key). Adds them to states that have seen all other keys; l, acc and
/// score_sum remain what attention.hpp says, so that finish() need not know. Complete on return.
void add_sink(std::span<const double> sink, State& state);
/// Bytes that it takes meanwhile.
core::Index add_sink_bytes(core::Index heads);

/// What `rows` rows of all batch entries give the gradients of the scores: (H, exact_words) words, carried, on the
/// host. Words of several such calls are added, and give the same gradient for whatever rows each was called.
///   normalizers  (B, rows, H, 2), as finish() writes them
///   delta        (B, rows, H), of backward_delta(); not read where a row saw no key
std::vector<std::int64_t> sink_gradient(const core::Shape& shape, core::Index rows, std::span<const double> sink,
                                        const core::TensorView& normalizers, const core::TensorView& delta);
core::Index sink_gradient_bytes(core::Index heads);

/// Adds the words of some sums to those of as many others.
void add_words(const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to);
/// The gradients (H) of their words.
std::vector<double> sink_gradients_of(const std::vector<std::int64_t>& words);

}  // namespace annulus::kernels
