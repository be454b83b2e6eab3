// Adds the results of a call of the library, contiguous tensors (batch, heads, rows, D), to our own results: out and
// LSE to running softmax states, gradients to their sums. Also makes the LSE that the library's backward pass reads.
//
// A state holds l = sum 2^(s2 - m) and acc = sum 2^(s2 - m) v with an even integer m. Let
// L = lse log2(e) = log2 sum 2^s2 over the keys of a call. If m = 0, these keys add 2^L to l, and 2^L out to acc. No
// s2 is above L, so m' = max(m, the smallest even integer that is at least L) is large enough:
//   l' = l 2^(m - m') + 2^(L - m')        acc' = acc 2^(m - m') + 2^(L - m') out
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels::cudnn {

using core::Index;

/// Where the rows of a contiguous result (batch, heads, rows) belong in our tensors. The library's batch dimension
/// holds batch entries or the segments of one entry, so one of batch_step and segment_step is 0.
struct Places {
  Index batch = 1, heads = 1, rows = 1;  ///< extents of the result
  Index first_batch = 0, batch_step = 0;
  Index first_row = 0, row_stride = 1, segment_step = 0, head_step = 0;  ///< head_step: rows to the next head
  Index first_head = 0, head_stride = 1;

  Index vectors() const { return batch * heads * rows; }
};

/// Batch entry, row and head, in our tensors, of vector number `at` of a result.
struct Place {
  Index batch, row, head;

  KOKKOS_FUNCTION Place(const Places& places, Index at) {
    const Index of_head = quotient(at, places.rows), n = quotient(of_head, places.heads);
    const Index t = at - of_head * places.rows, h = of_head - n * places.heads;
    batch = places.first_batch + n * places.batch_step;
    row = places.first_row + n * places.segment_step + t * places.row_stride + h * places.head_step;
    head = places.first_head + h * places.head_stride;
  }
  KOKKOS_FUNCTION Index in(const core::TensorView& tensor) const { return number_of(tensor, batch, row, head); }
};

/// The factors by which a row's old and new sums are multiplied.
struct Weights {
  float old_sums, new_sums;
};

/// Updates m and l, and writes the factors by which MergeNumbers multiplies the accumulators and out.
struct MergeSums {
  Places places;
  const float* lse;
  device::StatePointers<float> state;
  Weights* weights;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    constexpr float none = float(-INFINITY), most = device::largest_number<float>;
    const Place place(places, at);
    const Index row = state.at(place.batch, place.row, place.head);
    const float l = state.l[row], m = l == 0 ? none : state.m[row];
    const double log_sum = double(lse[at]) * std::numbers::log2e;
    const float above = float(2 * core::ceil(log_sum / 2));
    const float fresh = !(above > m) ? m : above < most ? above : most;
    const float shrink = m == none ? 0.0F : device::power_of_two(m - fresh);
    const float weight = lse[at] == none ? 0.0F : float(core::exp2(log_sum - double(fresh)));
    state.m[row] = fresh;
    state.l[row] = shrink * l + weight;
    weights[at] = {shrink, weight};
  }
};

/// Adds the call's out to the accumulators. An accumulator whose factor is 0 is not read, because the memory of an
/// empty state may contain anything.
struct MergeNumbers {
  Places places;
  Index head_dim;
  core::TensorView out;  ///< only data and type are used; no gaps between numbers
  const Weights* weights;
  device::StatePointers<float> state;

  KOKKOS_FUNCTION void operator()(const device::VectorOf& vector, const device::ThreadNumbers& numbers) const {
    const Place place(places, vector.at);
    const auto [shrink, weight] = weights[vector.at];
    float* const acc = state.acc + state.at(place.batch, place.row, place.head) * head_dim;
    for (Index d = numbers.first; d < head_dim; d += numbers.step) {
      const float before = shrink == 0 ? 0.0F : shrink * acc[d];
      acc[d] = before + (weight == 0 ? 0.0F : weight * load_number<float>(out, vector.at * head_dim + d));
    }
  }
};

/// Computes the LSE (natural logarithm) from normalizers (normalizer.hpp), with P = factor 2^(s2 - shift) = exp(s -
/// lse). For a row that saw no key, the factor is 0 and the LSE +inf, so that every probability is 0.
struct LseOfNormalizers {
  Places places;
  core::TensorView normalizers;
  float* lse;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const Index from = Place(places, at).in(normalizers);
    const double shift = load_number<double>(normalizers, from), factor = load_number<double>(normalizers, from + 1);
    lse[at] = float(shift * std::numbers::ln2 - core::log(factor));
  }
};

/// sums += unit * gradient.
struct AddGradient {
  Places places;
  Index head_dim;
  core::TensorView gradient;  ///< only data and type are used; no gaps between numbers
  core::TensorView sums;      ///< float32
  float unit;

  KOKKOS_FUNCTION void operator()(const device::VectorOf& vector, const device::ThreadNumbers& numbers) const {
    float* const to = static_cast<float*>(sums.data) + Place(places, vector.at).in(sums);
    for (Index d = numbers.first; d < head_dim; d += numbers.step)
      to[d] += unit * load_number<float>(gradient, vector.at * head_dim + d);
  }
};

/// Calls body(at) for every vector of a result; does not wait.
template <class ExecSpace, class Body>
void launch_vectors(const char* label, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<Index>>(0, body.places.vectors()), body);
}

/// Calls body(vector, numbers) for all numbers of a result; does not wait. Of `vector`, body may use only `at`.
template <class ExecSpace, class Body>
void launch_numbers(const char* label, const Body& body) {
  const Places& places = body.places;
  device::launch_numbers<ExecSpace>(label, places.vectors(), places.rows, places.heads, body.head_dim, body);
}

}  // namespace annulus::kernels::cudnn
