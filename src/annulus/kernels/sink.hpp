// Sink logits: each head has one more key, of value 0. Every row that sees any key sees this key, too.
//
// If z_h is this key's score for head h (not in base 2), lse(x) = ln(exp(z_h) + sum_p mult(x, p) exp(s(x, p))), where
// mult(x, p) says how often key p counts for row x. The weights of out(x) are exp(s(x, p) - lse(x)). A running softmax
// takes the sink key last, because only at the end it is known which rows have seen a key. So it does not matter which
// ranks added the other keys, or in how many calls. P of the other keys is computed from this lse. The gradient of z_h:
//   dz_h = -sum_x exp(z_h - lse(x)) delta_x          (dP of the sink key is 0, because its value is 0)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/exact_sum.hpp"

namespace annulus::kernels {

/// Adds the sink keys to states that have seen all other keys. `sink` (H) has the scores of the sink keys, finite or
/// -inf (no such key). l, acc and score_sum keep the meaning that State gives them, so finish() works as without sink
/// keys. Complete on return.
void add_sink(std::span<const double> sink, State& state);
/// Returns how many bytes add_sink() takes while it runs.
core::Index add_sink_bytes(core::Index heads);

/// Returns what `rows` rows of all batch entries add to the gradients of `sink`: exact sums (exact_sum.hpp) after
/// carry_exactly(), (H, exact_words) words in host memory. add_words() adds up the words of several calls. The gradient
/// does not depend on how rows were divided among calls.
///   normalizers  (B, rows, H, 2), as finish() writes them
///   delta        (B, rows, H), of backward_delta(); not read for a row that saw no key
std::vector<std::int64_t> sink_gradient(const core::Shape& shape, core::Index rows, std::span<const double> sink,
                                        const core::TensorView& normalizers, const core::TensorView& delta);
core::Index sink_gradient_bytes(core::Index heads);

/// Adds the exact sums in the words `from`, one by one, to those in the words `to`. An empty `to` counts as zeros.
void add_words(const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to);
/// Returns the gradients (H) whose exact sums have these words.
std::vector<double> sink_gradients_of(const std::vector<std::int64_t>& words);

}  // namespace annulus::kernels
