// The passes, for tensors described by integers (library/tensor.hpp). For Kokkos::Views see library/attention.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "annulus/library/communicator.hpp"
#include "annulus/library/plan.hpp"
#include "annulus/library/tensor.hpp"

namespace annulus {

/// A pass calls this function now and then, in the caller's thread, with the fraction (0 ... 1) of this rank's work
/// that is done and a word for the current step. If the function throws, the pass ends on this rank, and other ranks
/// may wait for this rank for ever. On several ranks the communicator is then interrupted
/// (Communicator::is_interrupted()). The function must not call a pass or reference().
using Progress = std::function<void(double share, const std::string& where)>;

/// The numbers that backward() needs from forward() besides `out`: two per row and head, with which backward() computes
/// the probabilities again. They have more digits than an LSE in float32 and take 8 or 16 bytes per row and head.
/// Copies of a Normalizers object share one array of numbers. Destroy the last copy before Kokkos::finalize().
class Normalizers {
 public:
  Normalizers() = default;
  explicit Normalizers(std::shared_ptr<void> kept) : kept_(std::move(kept)) {}
  bool empty() const { return kept_ == nullptr; }
  const std::shared_ptr<void>& kept() const { return kept_; }

 private:
  std::shared_ptr<void> kept_;
};

/// Statistics of the probabilities P(x, p) of query row x and key row p; Options say which statistics are wanted.
struct Statistics {
  Tensor entropy = {};   ///< (B, S_p, H, 1) in the type of lse: -sum_p P ln P of row x, in nats
  Tensor received = {};  ///< (B, S_p, H, 1) float64: sum_x P of row p
  Tensor top_weights =
      {};  ///< (B, S_p, H, top_keys) in the type of lse: the largest P of row x, largest first; 0: no key
  Index* top_rows = nullptr;  ///< (B, S_p, H, top_keys), contiguous: these keys' rows in the whole sequence; -1: no key
};

/// Tensors of this rank's S_p rows: plan.rows(rank) for k, v and received, plan.query_rows(rank) for all others. The
/// two functions return different rows only if not all rows are queries.
///   q            (B, S_p, H, D)     k (B, S_p, Hkv, D)     v (B, S_p, Hkv, Dv)
///   out          (B, S_p, H, Dv)    written
///   lse          (B, S_p, H, 1)     written; natural logarithm; -inf (and out = 0) where a row sees no key
///   sink         (1, 1, H, 1)       of any type, finite or -inf, only with Pattern::sink; the same on every rank
///   statistics   written, but only those that the plan asks for
///   normalizers  (B, S_p, H, 2)     float64 where sums are float64, otherwise float32; optional: the caller's memory
///                for what Normalizers contain, written if the plan has gradients
/// A tensor that is written must not overlap another tensor.
struct ForwardTensors {
  Tensor q = {}, k = {}, v = {}, out = {}, lse = {};
  Statistics statistics = {};
  Tensor sink = {};
  Tensor normalizers = {};
};

/// Computes the attention of this rank's rows to all keys that the plan's pattern keeps, whichever rank holds them.
/// Returns when the results are complete. Collective. On one rank, tensors are read in place if the D numbers of a row
/// and head are contiguous, and sums are added up in the caller's `out` if `out` is contiguous and has the type of the
/// sums. On several ranks, k and v are copied once. If the plan has gradients, pass the returned Normalizers to
/// backward(). A process runs one pass at a time, and a second thread waits. So threads on different ranks must start
/// their passes in the same order, even on different communicators. Throws Error on all ranks, of kind usage if a
/// tensor does not fit the plan: "attention: k is (1, 4096, 3, 64), the plan of rank 1 wants (1, 4096, 2, 64)". Source:
/// the pattern is LongNet's (Ding et al. 2023), the online softmax is from Milakov, Gimelshein 2018.
Normalizers forward(const Communicator& comm, const Plan& plan, const ForwardTensors& tensors,
                    const Progress& progress = {});

/// q, k, v and out are as in ForwardTensors. dout has the shape of out; dq, dk, dv have the shapes of q, k, v and are
/// written. dlse (B, S_p, H, 1), the gradient of lse in the type of lse, is 0 if it is not given. dsink (1, 1, H, 1),
/// in the type of lse, is optional and written on every rank: the gradient of the forward pass's sink, summed over the
/// rows of all ranks. `normalizers` is optional: the memory into which forward() wrote its normalizers. If it is given,
/// backward() reads this memory, ignores its argument of type Normalizers, and cannot check that forward() had the same
/// plan. In this case `sink` must also be given if the plan has sink logits.
struct BackwardTensors {
  Tensor q = {}, k = {}, v = {}, out = {}, dout = {}, dlse = {}, dq = {}, dk = {}, dv = {}, dsink = {};
  Tensor normalizers = {};
  Tensor sink = {};
};

/// Computes gradients for a plan made with Options::gradients; `normalizers` and `out` are from forward() with the same
/// q, k, v. Collective; throws as forward() does. Source: FlashAttention (Dao et al. 2022), which needs no n x n buffer
/// for n rows.
void backward(const Communicator& comm, const Plan& plan, const Normalizers& normalizers,
              const BackwardTensors& tensors, const Progress& progress = {});

}  // namespace annulus
