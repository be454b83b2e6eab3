// The passes, on tensors described by integers. Kokkos::Views: library/attention.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "annulus/library/communicator.hpp"
#include "annulus/library/plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus {

/// Called now and then by the calling thread with the share of this rank's work that is done (0 ... 1) and what it is
/// at. What it throws ends the pass, on one rank; others then wait for it.
using Progress = std::function<void(double share, const std::string& where)>;

/// What the backward pass takes of the forward pass beside out: two numbers per row and head that make the
/// probabilities again, with more digits than an LSE in float32 has. 8 or 16 bytes each; copies share them.
class Normalizers {
 public:
  Normalizers() = default;
  explicit Normalizers(std::shared_ptr<void> kept) : kept_(std::move(kept)) {}
  bool empty() const { return kept_ == nullptr; }
  const std::shared_ptr<void>& kept() const { return kept_; }

 private:
  std::shared_ptr<void> kept_;
};

/// What a plan's Options ask to be told of the probabilities P(x, p) of query row x and key row p.
struct Statistics {
  Tensor entropy = {};   ///< (B, S_p, H, 1) in the type of lse: -sum_p P ln P of row x, in nats
  Tensor received = {};  ///< (B, S_p, H, 1) float64: sum_x P of row p
  Tensor top_weights =
      {};  ///< (B, S_p, H, top_keys) in the type of lse: the largest P of row x, largest first; 0: none
  Index* top_rows = nullptr;  ///< (B, S_p, H, top_keys), contiguous: their rows in the whole sequence; -1: none
};

/// Tensors of this rank's S_p rows, plan.rows(rank); q, out, lse, normalizers, entropy and top lists have the rows
/// plan.query_rows(rank), which are as many where all rows are queries.
///   q            (B, S_p, H, D)     k (B, S_p, Hkv, D)     v (B, S_p, Hkv, Dv)
///   out          (B, S_p, H, Dv)    written
///   lse          (B, S_p, H, 1)     written; natural logarithm; -inf (and out = 0) where a row sees no key
///   sink         (1, 1, H, 1)      of any type, finite or -inf, where Pattern::sink says so; the same on every rank
///   statistics   written, those that the plan asks for
///   normalizers  (B, S_p, H, 2) float64 where sums are float64, else float32; written if given and the plan has
///                gradients: what Normalizers hold, in memory of the caller's
/// Written tensors overlap no other one.
struct ForwardTensors {
  Tensor q = {}, k = {}, v = {}, out = {}, lse = {};
  Statistics statistics = {};
  Tensor sink = {};
  Tensor normalizers = {};
};

/// Attention of this rank's rows to all keys that the plan's pattern keeps, whichever rank holds them; complete on
/// return; collective. On one rank tensors are read where they lie, if the D numbers of a row and head are next to each
/// other, and the sums are made in `out` where that is contiguous and of the type of the sums; on several, k and v are
/// copied once. Returns what forward() of a plan with gradients leaves for backward().
/// One pass of a process at a time: a second thread waits.
/// Throws Error on all ranks, of kind usage where a tensor is not what the plan says: "attention: k is (1, 4096, 3,
/// 64), the plan of rank 1 wants (1, 4096, 2, 64)".
/// Source: the pattern is LongNet's (Ding et al. 2023), softmax online (Milakov, Gimelshein 2018).
Normalizers forward(const Communicator& comm, const Plan& plan, const ForwardTensors& tensors,
                    const Progress& progress = {});

/// As above; dout lies as out, dq, dk and dv as q, k and v. dlse (B, S_p, H, 1), the gradient of lse in its type, may
/// be missing: zeros. dq, dk, dv are written, and dsink (1, 1, H, 1), in the type of lse, if it is given: the gradient
/// of the forward pass's sink over the rows of all ranks, on each of them. `normalizers`, if given, are those that
/// forward() wrote, and are read in place of Normalizers; nothing says then of which plan they are, and the forward
/// pass's sink, where the plan has one, is given again.
struct BackwardTensors {
  Tensor q = {}, k = {}, v = {}, out = {}, dout = {}, dlse = {}, dq = {}, dk = {}, dv = {}, dsink = {};
  Tensor normalizers = {};
  Tensor sink = {};
};

/// Gradients of a plan made with Options::gradients; `normalizers` and out are the forward pass's of the same q, k and
/// v. Collective; errors as above. Source: FlashAttention (Dao et al. 2022), without an n x n buffer.
void backward(const Communicator& comm, const Plan& plan, const Normalizers& normalizers,
              const BackwardTensors& tensors, const Progress& progress = {});

}  // namespace annulus
