// Cases and answers of the tensor-core backward pass.
#pragma once

#include "kernels/cuda_kinds.hpp"

#include "annulus/kernels/cuda/backward_block.hpp"
#include "kernels/backward_case.hpp"
#include "kernels/device_backward_case.hpp"

namespace annulus::test {

/// The same problem as long_case(), with two heads and gradients; its first queries see no key.
inline BackwardCase long_backward_case(Index head_dim, DType type, core::Mask mask) {
  BackwardCase test;
  static_cast<WorkCase&>(test) = long_case(head_dim, type, mask);
  test.shape.heads = 2;
  test.calls[0].items[0].head_count = 2;
  test.calls[0].runs = {{10, 5, 2, 150}, {20, 10, 3, 280}};
  test.fill_all();
  return test;
}

/// Numbers of a tensor on the host, put back at the end.
struct TensorOnHost {
  explicit TensorOnHost(const DeviceTensor& tensor) : bytes(tensor.buffer), view(tensor.view) {
    view.data = bytes.data();
  }
  OnHost<std::byte> bytes;
  core::TensorView view;
};

/// attend_backward() of one side by block programs on the host.
template <class Block>
void twin_attend_backward(const core::WorkList& list, const core::Shape& shape, const BackwardTensors& tensors,
                          double scale, double output_scale, TwinRun& how) {
  const kernels::device::DeviceWork work(list, shape.batch, Block::owner, Block::rows);
  const kernels::device::HostCopy tables(work, list);
  const TensorOnHost q(tensors.q), k(tensors.k), v(tensors.v), dout(tensors.dout), normalizers(tensors.normalizers),
      delta(tensors.delta), dq(tensors.dq), dk(tensors.dk), dv(tensors.dv);
  const kernels::cuda::BackwardTask task{
      tables.view,
      {q.view, k.view, v.view, dout.view, normalizers.view, delta.view, scale, output_scale},
      {dq.view, dk.view, dv.view},
      float(scale * std::numbers::log2e),
      int(shape.head_dim)};
  for (Index number = 0; number < work.teams(); ++number) {
    TwinBlock block(Block::threads, Block::shared_bytes, how.copies, how.order);
    block.run([&](TwinMachine& machine) { Block::run(machine, task, number); });
    how.bank_conflicts = std::max(how.bank_conflicts, block.bank_conflicts);
  }
}

/// Blocks of both sides for one type of numbers.
template <class Number, DType stored>
struct BackwardKind {
  static constexpr DType type = stored;

  template <kernels::device::Owner owner, const auto& table, std::size_t entry = 0>
  static void twin_of(const core::WorkList& list, const BackwardCase& test, const BackwardTensors& tensors,
                      TwinRun& how) {
    if (test.shape.head_dim <= table[entry].columns) {
      using Block = kernels::cuda::BackwardBlock<kernels::cuda::Engine16, Number, owner, table[entry]>;
      return twin_attend_backward<Block>(list, test.shape, tensors, test.scale(), test.output_scale, how);
    }
    if constexpr (entry + 1 < std::size(table)) twin_of<owner, table, entry + 1>(list, test, tensors, how);
  }
  /// Of the larger one of the two blocks for this head size.
  template <std::size_t entry = 0>
  static int shared_bytes(Index head_dim) {
    using namespace kernels::cuda;
    using kernels::device::Owner;
    if constexpr (entry < std::size(query_sizes_16)) {
      if (head_dim > query_sizes_16[entry].columns) return shared_bytes<entry + 1>(head_dim);
      return std::max(BackwardBlock<Engine16, Number, Owner::queries, query_sizes_16[entry]>::shared_bytes,
                      BackwardBlock<Engine16, Number, Owner::keys, key_sizes_16[entry]>::shared_bytes);
    }
    return 0;
  }
  static Gradients twin(const BackwardCase& test, const BackwardAnswer& known, TwinRun& how) {
    return gradients_by(test, known, [&](const core::WorkList& list, const BackwardTensors& tensors) {
      using kernels::device::Owner;
      twin_of<Owner::queries, kernels::cuda::query_sizes_16>(list, test, tensors, how);
      twin_of<Owner::keys, kernels::cuda::key_sizes_16>(list, test, tensors, how);
    });
  }
};
using BackwardProducts = testing::Types<BackwardKind<core::BFloat16, DType::bfloat16>,  //
                                        BackwardKind<core::Half, DType::float16>>;

}  // namespace annulus::test
