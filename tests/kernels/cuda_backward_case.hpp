// Cases for the tensor-core backward pass, and its gradients, computed on the host.
#pragma once

#include <cmath>

#include "kernels/cuda_kinds.hpp"

#include "kernels/backward_case.hpp"
#include "kernels/device_backward_case.hpp"

namespace annulus::test {

/// The problem of long_case() with two heads and gradients; with Band::upto its first ten queries see no key.
inline BackwardCase long_backward_case(Index head_dim, DType type, core::Precision precision, core::Band mask) {
  BackwardCase test;
  static_cast<WorkCase&>(test) = long_case(head_dim, type, precision, mask);
  test.shape.heads = 2;
  test.calls[0].items[0].head_count = 2;
  test.calls[0].runs = {{10, 5, 2, 150}, {20, 10, 3, 280}};
  test.fill_all();
  return test;
}

/// 40 keys and 4,000 queries: dv of a key is a sum over all queries, whose terms are all positive.
inline BackwardCase many_queries_case() {
  BackwardCase test;
  static_cast<WorkCase&>(test) = long_rows(4000, 40);
  test.fill_all();
  for (double& number : test.dout) number = std::abs(number);
  return test;
}

/// A copy of a tensor in host memory; the destructor copies it back.
struct TensorOnHost {
  explicit TensorOnHost(const DeviceTensor& tensor) : bytes(tensor.buffer), view(tensor.view) {
    view.data = bytes.data();
  }
  OnHost<std::byte> bytes;
  core::TensorView view;
};

/// Computes the gradients that Block makes (dq, or dk and dv) as attend_backward() does, by block programs on the host.
template <class Block>
void twin_attend_backward(const core::WorkList& list, const core::Shape& shape, const BackwardTensors& tensors,
                          double scale, double output_scale, TwinRun& how) {
  const kernels::device::DeviceWork work(list, shape.batch, Block::owner, Block::rows);
  const TensorOnHost q(tensors.q), k(tensors.k), v(tensors.v), dout(tensors.dout), normalizers(tensors.normalizers),
      delta(tensors.delta), dq(tensors.dq), dk(tensors.dk), dv(tensors.dv);
  using Sum = typename Block::Sum;
  const kernels::cuda::BackwardTask<Sum> task{
      work.host_view(),
      {q.view, k.view, v.view, dout.view, normalizers.view, delta.view, scale, output_scale},
      {dq.view, dk.view, dv.view},
      Sum(scale * std::numbers::log2e),
      int(shape.head_dim)};
  for (Index number = 0; number < work.teams(); ++number) {
    TwinBlock block(Block::threads, Block::shared_bytes, how.copies, how.order);
    block.run([&](TwinMachine& machine) { Block::run(machine, task, number); });
    how.bank_conflicts = std::max(how.bank_conflicts, block.bank_conflicts);
  }
}

/// The gradients that the block programs for one kind of products (cuda_kinds.hpp) compute on the host.
template <class Products>
Gradients twin_gradients(const BackwardCase& test, const BackwardAnswer& known, TwinRun& how) {
  return gradients_by(test, known, [&](const core::WorkList& list, const BackwardTensors& tensors) {
    Products::with_backward_blocks(test.shape.head_dim, [&](auto block) {
      twin_attend_backward<decltype(block)>(list, test.shape, tensors, test.scale(), test.output_scale, how);
    });
  });
}

/// Shared memory in bytes of the block that needs most, for this head size.
template <class Products>
int backward_shared_bytes(Index head_dim) {
  int bytes = 0;
  Products::with_backward_blocks(head_dim, [&](auto block) { bytes = std::max(bytes, decltype(block)::shared_bytes); });
  return bytes;
}

}  // namespace annulus::test
