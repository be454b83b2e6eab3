// A test double of cuDNN in host memory: dense attention of strided tensors by its definition, in float64.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/core/storage.hpp"
#include "annulus/kernels/cudnn/engine.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::test {

using core::Index;
using kernels::cudnn::PlanShape;
using kernels::cudnn::Strides;

class DenseDouble : public kernels::cudnn::Engine {
 public:
  /// Returns why there is no plan for a shape, or "". Tests set this function to see who computes a shape without a
  /// plan.
  std::function<std::string(const PlanShape&)> why_not = [](const PlanShape&) { return ""; };
  static constexpr Index workspace_bytes = 1000;
  std::vector<PlanShape> ran = {};

  kernels::cudnn::Prepared prepare(const PlanShape& shape) override { return {why_not(shape), workspace_bytes}; }

  void forward(const PlanShape& shape, const kernels::cudnn::ForwardPointers& t, void* workspace) override {
    ran.push_back(shape);
    fill(workspace);
    for_each_query(shape, [&](Index n, Index h, Index i, Index at) {
      const std::vector<double> scores = scores_of(shape, t.q, t.k, n, h, i);
      double largest = -INFINITY, sum = 0;
      for (const double s : scores) largest = std::max(largest, s);
      for (const double s : scores) sum += std::exp(s - largest);
      t.lse[at] = scores.empty() ? -INFINITY : float(largest + std::log(sum));
      for (Index d = 0; d < shape.head_dim; ++d) {
        double out = scores.empty() ? NAN : 0;  // as cuDNN, which promises no number here
        for (std::size_t j = 0; j < scores.size(); ++j)
          out += std::exp(scores[j] - largest) / sum * key(shape, shape.v, t.v, n, h, Index(j), d);
        kernels::store_number({t.out, shape.type}, at * shape.head_dim + d, out);
      }
    });
  }

  void backward(const PlanShape& shape, const kernels::cudnn::BackwardPointers& t, void* workspace) override {
    ran.push_back(shape);
    fill(workspace);
    const Index D = shape.head_dim;
    const std::size_t key_numbers = std::size_t(shape.key_rows() * D);
    std::vector<double> dq(std::size_t(shape.rows() * D)), dk(key_numbers), dv(key_numbers);
    for_each_query(shape, [&](Index n, Index h, Index i, Index at) {
      const std::vector<double> scores = scores_of(shape, t.q, t.k, n, h, i);
      double delta = 0;
      for (Index d = 0; d < D; ++d) {
        delta += query(shape, shape.out, t.out, n, h, i, d) * query(shape, shape.dout, t.dout, n, h, i, d);
      }
      for (std::size_t j = 0; j < scores.size(); ++j) {
        const double p = std::exp(scores[j] - double(t.lse[at]));
        double dp = 0;
        for (Index d = 0; d < D; ++d)
          dp += query(shape, shape.dout, t.dout, n, h, i, d) * key(shape, shape.v, t.v, n, h, Index(j), d);
        const double ds = shape.scale * p * (dp - delta);
        const std::size_t to = std::size_t(((n * shape.kv_heads + kv_of(shape, h)) * shape.keys + Index(j)) * D);
        for (Index d = 0; d < D; ++d) {
          dq[std::size_t(at * D + d)] += ds * key(shape, shape.k, t.k, n, h, Index(j), d);
          dk[to + std::size_t(d)] += ds * query(shape, shape.q, t.q, n, h, i, d);
          dv[to + std::size_t(d)] += p * query(shape, shape.dout, t.dout, n, h, i, d);
        }
      }
    });
    for (const auto& [to, numbers] : {std::pair(t.dq, &dq), {t.dk, &dk}, {t.dv, &dv}}) {
      for (std::size_t i = 0; i < numbers->size(); ++i)
        kernels::store_number({to, shape.type}, Index(i), (*numbers)[i]);
    }
  }

 private:
  /// Overwrites the workspace, so that tests notice a caller that keeps numbers of its own there.
  static void fill(void* workspace) {
    for (Index i = 0; i < workspace_bytes; ++i) static_cast<std::byte*>(workspace)[i] = std::byte{0xff};
  }
  template <class Visit>
  static void for_each_query(const PlanShape& s, const Visit& visit) {
    for (Index n = 0; n < s.batch; ++n) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index i = 0; i < s.queries; ++i) visit(n, h, i, (n * s.heads + h) * s.queries + i);
      }
    }
  }
  static Index kv_of(const PlanShape& s, Index head) { return head / (s.heads / s.kv_heads); }
  static double number(const PlanShape& s, const Strides& strides, const void* data, Index n, Index h, Index row,
                       Index d) {
    const Index at = n * strides.batch + h * strides.head + row * strides.row + d;
    return kernels::load_number<double>({const_cast<void*>(data), s.type}, at);
  }
  static double query(const PlanShape& s, const Strides& strides, const void* data, Index n, Index h, Index i,
                      Index d) {
    return number(s, strides, data, n, h, i, d);
  }
  static double key(const PlanShape& s, const Strides& strides, const void* data, Index n, Index h, Index j, Index d) {
    return number(s, strides, data, n, kv_of(s, h), j, d);
  }
  static std::vector<double> scores_of(const PlanShape& s, const void* q, const void* k, Index n, Index h, Index i) {
    std::vector<double> scores;
    for (Index j = 0; j < s.keys && (!s.seen || j <= i + *s.seen); ++j) {
      double sum = 0;
      for (Index d = 0; d < s.head_dim; ++d) sum += query(s, s.q, q, n, h, i, d) * key(s, s.k, k, n, h, j, d);
      scores.push_back(s.scale * sum);
    }
    return scores;
  }
};

}  // namespace annulus::test
