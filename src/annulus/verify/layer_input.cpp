#include "annulus/verify/layer_input.hpp"

#include <algorithm>
#include <cmath>

#include "annulus/core/kokkos_compat.hpp"

namespace annulus::verify {
namespace {

using core::StoredTensor;
using layer::Weight;

constexpr Index block_rows = 64;                 // rows of k or v in one cached block
constexpr Index largest_cache = Index(1) << 30;  // bytes of all cached blocks on a rank

/// Returns c = a w + bias. Shapes: `a` (rows, inner), w (inner, columns), bias (columns) or empty.
Numbers product(const Numbers& a, const Numbers& w, Index inner, const Numbers& bias) {
  const std::size_t in = std::size_t(inner), columns = w.size() / in, rows = a.size() / in;
  Numbers c(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    double* const to = c.data() + i * columns;
    if (!bias.empty()) std::copy(bias.begin(), bias.end(), to);
    for (std::size_t k = 0; k < in; ++k) {
      const double factor = a[i * in + k];
      const double* const from = w.data() + k * columns;
      for (std::size_t j = 0; j < columns; ++j) to[j] += factor * from[j];
    }
  }
  return c;
}

/// Adds the product a w^T to c. Shapes: `a` (rows, columns), w (inner, columns), c (rows, inner).
void add_transposed(std::span<const double> a, const Numbers& w, Index columns, Numbers& c) {
  const std::size_t n = std::size_t(columns), inner = w.size() / n;
  for (std::size_t i = 0; i < a.size() / n; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += a[i * n + j] * w[k * n + j];
      c[i * inner + k] += sum;
    }
  }
}

}  // namespace

LayerInput::LayerInput(const layer::LayerProblem& problem, const runfile::LayerSettings& settings,
                       const store::InspectedFile& file, const layer::Weights& weights)
    : VerifyInput(problem.attention, core::AxisOrder::bshd), file_(file), settings_(settings), problem_(problem) {
  if (file.is_end_to_end) entry_rows = entry_queries = file.at(settings.x).extents[1];
  for (const Weight w : layer::all_weights) {
    std::vector<std::byte> host(std::size_t(weights[w].bytes()));
    core::copy_to_host(host.data(), weights[w].data(), weights[w].bytes());
    weights_[std::size_t(w)] = to_double(host, type);
  }
}

Numbers LayerInput::rows(StoredTensor tensor, Interval rows) const {
  switch (tensor) {
    case StoredTensor::q:
      return project(Weight::wq, rows);
    case StoredTensor::k:
      return cached(Weight::wk, rows);
    case StoredTensor::v:
      return cached(Weight::wv, rows);
    case StoredTensor::dlse:
      return Numbers(std::size_t(shape.batch * rows.size() * shape.heads));
    default: {
      const Numbers dy = this->dy(rows);
      Numbers dout(std::size_t(shape.batch * rows.size() * shape.heads * shape.head_dim));
      add_transposed(dy, weight(Weight::wo), width(), dout);
      return dout;
    }
  }
}

Numbers LayerInput::output(const Numbers& out) const {
  return product(out, weight(Weight::wo), shape.heads * shape.head_dim, weight(Weight::bo));
}

Numbers LayerInput::input_gradient(std::span<const double> dq, std::span<const double> dk,
                                   std::span<const double> dv) const {
  Numbers dx(static_cast<std::size_t>(width()));
  add_transposed(dq, weight(Weight::wq), Index(dq.size()), dx);
  add_transposed(dk, weight(Weight::wk), Index(dk.size()), dx);
  add_transposed(dv, weight(Weight::wv), Index(dv.size()), dx);
  return dx;
}

/// Rotates the numbers d and d + D/2 of every head by the angle sign * position * problem().rope^(-2 d / D).
void LayerInput::rotate(std::span<double> heads, Index position, double sign) const {
  if (!problem_.rope) return;
  const std::size_t D = std::size_t(shape.head_dim), half = D / 2;
  for (std::size_t d = 0; d < half; ++d) {
    const double angle = sign * double(position) * std::pow(*problem_.rope, -2.0 * double(d) / double(D));
    const double c = std::cos(angle), s = std::sin(angle);
    for (std::size_t first = d; first < heads.size(); first += D) {
      const double a = heads[first], b = heads[first + half];
      heads[first] = a * c - b * s;
      heads[first + half] = a * s + b * c;
    }
  }
}

/// Returns rope(x w + bias) for rows of x, (B, rows, heads, D). For v, which has no rope, returns x w + bias.
Numbers LayerInput::project(Weight w, Interval rows) const {
  Numbers all = product(x(rows), weight(w), width(), weight(layer::bias_of(w)));
  if (w == Weight::wv) return all;
  const std::size_t row_numbers = all.size() / std::size_t(shape.batch * rows.size());
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index x = 0; x < rows.size(); ++x) {
      rotate(std::span(all).subspan(std::size_t(b * rows.size() + x) * row_numbers, row_numbers), rows.begin + x, 1);
    }
  }
  return all;
}

/// Returns the same as project(), but takes blocks of rows from a cache. If the cache gets too large, empties it.
Numbers LayerInput::cached(Weight w, Interval rows) const {
  const Index numbers = shape.kv_heads * shape.head_dim;
  Numbers all(std::size_t(shape.batch * rows.size() * numbers));
  for (Index i = rows.begin / block_rows; i * block_rows < rows.end; ++i) {
    const Interval block{i * block_rows, std::min(shape.sequence, (i + 1) * block_rows)};
    auto known = blocks_.find({w, i});
    if (known == blocks_.end()) {
      if (cached_bytes_ > largest_cache) blocks_.clear(), cached_bytes_ = 0;
      known = blocks_.emplace(std::pair(w, i), project(w, block)).first;
      cached_bytes_ += Index(known->second.size() * sizeof(double));
    }
    const Interval part = intersect(block, rows);
    for (Index b = 0; b < shape.batch; ++b) {
      const auto from = known->second.begin() + (b * block.size() + part.begin - block.begin) * numbers;
      std::copy(from, from + part.size() * numbers,
                all.begin() + (b * rows.size() + part.begin - rows.begin) * numbers);
    }
  }
  return all;
}

}  // namespace annulus::verify
