// An engine computes dense attention of strided tensors. It is cuDNN (plans.hpp) or, in tests, a double of cuDNN.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::kernels::cudnn {

using core::Index;

/// Number (batch, head, row, d) of a tensor has the index
///   batch * Strides::batch + head * Strides::head + row * Strides::row + d
struct Strides {
  Index batch = 0;
  Index head = 0;
  Index row = 0;
  auto operator<=>(const Strides&) const = default;
};

/// Everything that a plan depends on. Tensors are 4-D: q, out, dout (batch, heads, queries, D), k and v (batch,
/// kv_heads, keys, D); query head h reads key/value head h / (heads / kv_heads).
struct PlanShape {
  core::DType type = core::DType::bfloat16;
  bool backward = false;
  Index batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, head_dim = 1;
  std::optional<Index> seen = {};  ///< query i sees key j if j <= i + *seen; empty: all keys
  double scale = 1;
  Strides q, k, v;
  Strides out = {}, dout = {};  ///< what the backward pass reads; results are contiguous
  auto operator<=>(const PlanShape&) const = default;

  Index rows() const { return batch * heads * queries; }
  Index key_rows() const { return batch * kv_heads * keys; }
};

/// Results are contiguous: out (batch, heads, queries, D) of PlanShape::type, natural LSE (batch, heads, queries) in
/// float32. cuDNN 9.19 also has plans with out or gradients in float32, but these write 16-bit numbers, too.
struct ForwardPointers {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;
};

/// out and lse are results of all keys that a row sees, in this call and in others. The results dq (batch, heads,
/// queries, D), dk and dv (batch, kv_heads, keys, D) are contiguous and of PlanShape::type.
struct BackwardPointers {
  const void* q;
  const void* k;
  const void* v;
  const void* out;
  const void* dout;
  const float* lse;
  void* dq;
  void* dk;
  void* dv;
};

/// Says whether there is a plan, and how much device memory it needs besides the tensors.
struct Prepared {
  std::string why_not = {};  ///< empty: there is a plan
  Index workspace_bytes = 0;
};

/// Computes on the execution space's stream, after what was launched there, and does not wait.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Makes the plan of a shape, or finds it among the plans that it has kept.
  virtual Prepared prepare(const PlanShape& shape) = 0;
  /// Compute one call of a shape that was prepared. If the library fails, they throw Error(failure) with its message.
  virtual void forward(const PlanShape& shape, const ForwardPointers& tensors, void* workspace) = 0;
  virtual void backward(const PlanShape& shape, const BackwardPointers& tensors, void* workspace) = 0;
};

}  // namespace annulus::kernels::cudnn
