// Attention for Kokkos::Views.
#pragma once

#include "annulus/library/passes.hpp"

namespace annulus {

/// Computes the attention of this rank's S_p rows to all keys that the plan's pattern keeps, whichever rank holds them.
///   q    (B, S_p, H, D)   k (B, S_p, Hkv, D)   v (B, S_p, Hkv, Dv)
///   out  (B, S_p, H, Dv)  written
///   lse  (B, S_p, H)      written; natural logarithm; -inf (and out = 0) where a row sees no key
/// Views may have any layout. Best are layouts in which the D numbers of a row and head are contiguous (passes.hpp says
/// what is copied). Waits for earlier work on `exec`, and returns when the results are complete. Collective. Wrong
/// arguments throw Error on all ranks. The caller must have started Kokkos and, if `comm` has several ranks, MPI.
/// Returns the normalizers that attention_backward() needs if the plan was made with gradients, otherwise an empty
/// object.
template <class ExecSpace, class Q, class K, class V, class Out, class Lse>
Normalizers attention(const ExecSpace& exec, const Communicator& comm, const Plan& plan, const Q& q, const K& k,
                      const V& v, const Out& out, const Lse& lse, const Progress& progress = {}) {
  static_assert(Lse::Rank == 3, "annulus: lse is (B, rows, heads)");
  exec.fence();
  return forward(comm, plan, {tensor(q), tensor(k), tensor(v), written(out), written(lse)}, progress);
}

/// Computes gradients: reads dout (B, S_p, H, Dv); writes dq, dk and dv, which have the shapes of q, k and v. `out` and
/// `normalizers` are from attention().
template <class ExecSpace, class Q, class K, class V, class Out, class Dout, class Dq, class Dk, class Dv>
void attention_backward(const ExecSpace& exec, const Communicator& comm, const Plan& plan,
                        const Normalizers& normalizers, const Q& q, const K& k, const V& v, const Out& out,
                        const Dout& dout, const Dq& dq, const Dk& dk, const Dv& dv, const Progress& progress = {}) {
  exec.fence();
  BackwardTensors tensors{tensor(q), tensor(k), tensor(v), tensor(out), tensor(dout)};
  tensors.dq = written(dq);
  tensors.dk = written(dk);
  tensors.dv = written(dv);
  backward(comm, plan, normalizers, tensors, progress);
}

}  // namespace annulus
