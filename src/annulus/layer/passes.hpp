// The two ways in which a layer's passes are spread over ranks.
//   by rows   (none, fsdp)  a rank has its rows of everything; weights come to it, gradients of weights are summed
//   by heads  (tensor)      a rank has all rows of its heads; rows of x and dy come to it, partial y and dx are summed
#pragma once

#include "annulus/layer/layer.hpp"

namespace annulus::layer {

/// What a pass works with beside its tensors; see Layer.
struct Pass {
  const LayerProblem& problem;
  const pattern::Partition& partition;
  const strategies::Strategy& strategy;      ///< of the attention among the ranks of attention_comm
  const comm::Communicator& attention_comm;  ///< by heads: this rank alone
  const comm::Communicator& comm;            ///< for the layer's own messages
  const strategies::Progress& progress;

  const pattern::StoredRows& rows() const { return partition[std::size_t(comm.rank())]; }
  core::DType type() const { return problem.attention.type; }
  Index row_count() const { return problem.attention.shape.batch * rows().count(); }
};

ForwardResult forward_by_rows(const Pass& pass, const Weights& weights, const core::Buffer& x);
BackwardResult backward_by_rows(const Pass& pass, const Weights& weights, const core::Buffer& x,
                                strategies::Tensors saved, const core::Buffer& dy);
ForwardResult forward_by_heads(const Pass& pass, const Weights& weights, const core::Buffer& x);
BackwardResult backward_by_heads(const Pass& pass, const Weights& weights, const core::Buffer& x,
                                 strategies::Tensors saved, const core::Buffer& dy);

}  // namespace annulus::layer
