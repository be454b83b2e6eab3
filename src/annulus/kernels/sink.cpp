#include "annulus/kernels/sink.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/device/softmax.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using core::TensorView;

/// The score of a sink key in base 2. It is whole + fraction, with 2^fraction computed once for all rows.
template <class T>
struct SinkScore {
  T score;
  T whole;
  T power;  ///< 2^fraction; 0: no key
};

/// A thread adds up this many rows before it adds their sum to the sum of all threads.
constexpr Index rows_at_once = 64;

template <class T>
SinkScore<T> score_of(double sink) {
  if (std::isinf(sink)) return {0, 0, 0};
  const double most = double(device::largest_number<T>);
  const double score = std::clamp(sink * std::numbers::log2e, -most, most), whole = std::floor(score);
  return {T(score), T(whole), T(std::exp2(score - whole))};
}

/// Adds the sink key to a state. If the key's score is above the shift m, this raises m and rescales the state first.
/// Rescaling by powers of two is exact, so results do not depend on m.
template <class T>
struct AddSink {
  const SinkScore<T>* scores;
  Index heads, value_dim;
  T* m;
  T* l;
  T* score_sum;  // null: not wanted
  T* acc;
  T bias;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const SinkScore<T> key = scores[at % heads];
    if (l[at] == T(0) || key.power == T(0)) return;
    if (key.score > m[at]) rescale(at, device::shift_above(key.score));
    const T weight = key.power * device::power_of_two(key.whole - m[at] + bias);
    l[at] += weight;
    if (score_sum != nullptr) score_sum[at] += weight * key.score;
  }

 private:
  KOKKOS_FUNCTION void rescale(Index at, T shift) const {
    const T shrink = device::power_of_two(m[at] - shift);
    m[at] = shift;
    l[at] *= shrink;
    if (score_sum != nullptr) score_sum[at] *= shrink;
    for (Index d = at * value_dim; d < (at + 1) * value_dim; ++d) acc[d] *= shrink;
  }
};

/// Adds the terms of some rows of one head to the exact sum of its gradient. Index i counts (group of rows_at_once
/// rows, head), heads fastest. Groups take the rows of batch entry 0, then those of entry 1, and so on.
struct AddGradient {
  TensorView normalizers, delta;
  const double* scores;  ///< in base 2
  Index rows, heads, all_rows;
  std::int64_t* sums;  ///< (H, exact_words)

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index head = i % heads, first = i / heads * rows_at_once;
    const Index end = first + rows_at_once < all_rows ? first + rows_at_once : all_rows;
    std::int64_t words[exact_words] = {};
    for (Index row = first; row < end; ++row) {
      const Index at = number_of(normalizers, row / rows, row % rows, head);
      const double shift = load_number<double>(normalizers, at), factor = load_number<double>(normalizers, at + 1);
      const double p = factor == 0 ? 0 : factor * core::exp2(scores[head] - shift);
      if (p != 0) add_exactly(words, -p * load_number<double>(delta, number_of(delta, row / rows, row % rows, head)));
    }
    carry_exactly(words);
    for (int w = 0; w < exact_words; ++w)
      if (words[w] != 0) Kokkos::atomic_add(sums + head * exact_words + w, words[w]);
  }
};

template <class Number>
core::Buffer on_device(const char* purpose, const std::vector<Number>& numbers) {
  core::Buffer there(purpose, Index(numbers.size() * sizeof(Number)));
  core::copy_to_device(there.data(), numbers.data(), there.bytes());
  return there;
}

template <class Body>
void for_each(const char* label, Index count, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count), body);
  Kokkos::DefaultExecutionSpace().fence();
}

void check_heads(std::span<const double> sink, const core::Shape& shape) {
  core::require(Index(sink.size()) == shape.heads,
                [&] { return fmt::format("{} sink logits for {} heads", sink.size(), shape.heads); });
}

}  // namespace

Index add_sink_bytes(Index heads) { return heads * Index(sizeof(SinkScore<double>)); }

void add_sink(std::span<const double> sink, State& state) {
  check_heads(sink, state.shape);
  const Index states = state.shape.batch * state.rows * state.shape.heads;
  if (states == 0) return;
  core::with_precision(state.precision, [&](auto number) {
    using T = decltype(number);
    std::vector<SinkScore<T>> scores;
    for (const double one : sink) scores.push_back(score_of<T>(one));
    const core::Buffer there = on_device("sink", scores);
    for_each(
        "annulus::sink", states,
        AddSink<T>{static_cast<const SinkScore<T>*>(there.data()), state.shape.heads, state.shape.dim_of_values(),
                   static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()),
                   static_cast<T*>(state.score_sum.data()), static_cast<T*>(state.acc.data()), T(state.exponent_bias)});
  });
}

Index sink_gradient_bytes(Index heads) { return heads * Index(sizeof(double) + exact_words * sizeof(std::int64_t)); }

std::vector<std::int64_t> sink_gradient(const core::Shape& shape, Index rows, std::span<const double> sink,
                                        const TensorView& normalizers, const TensorView& delta) {
  check_heads(sink, shape);
  std::vector<std::int64_t> words(sink.size() * exact_words, 0);
  const Index all = shape.batch * rows;
  if (all == 0) return words;
  std::vector<double> scores;
  for (const double one : sink) scores.push_back(one * std::numbers::log2e);
  const core::Buffer there = on_device("sink", scores), sums = on_device("sink sums", words);
  for_each("annulus::sink_gradient", core::ceil_div(all, rows_at_once) * shape.heads,
           AddGradient{normalizers, delta, static_cast<const double*>(there.data()), rows, shape.heads, all,
                       static_cast<std::int64_t*>(sums.data())});
  core::copy_to_host(words.data(), sums.data(), sums.bytes());
  for (std::size_t h = 0; h < sink.size(); ++h) carry_exactly(words.data() + h * exact_words);
  return words;
}

void add_words(const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
  to.resize(std::max(to.size(), from.size()), 0);
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  for (std::size_t first = 0; first < to.size(); first += exact_words) carry_exactly(to.data() + first);
}

std::vector<double> sink_gradients_of(const std::vector<std::int64_t>& words) {
  std::vector<double> gradients;
  for (std::size_t first = 0; first < words.size(); first += exact_words) {
    gradients.push_back(exact_value(words.data() + first));
  }
  return gradients;
}

}  // namespace annulus::kernels
