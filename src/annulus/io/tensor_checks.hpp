// q, k, v and their gradients in a file against each other. Included by .cpp files of this room only.
#pragma once

#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::io {

/// What they are together.
struct TensorDescription {
  core::Shape shape;
  core::DType type = core::DType::float32;
  AxisOrder order = AxisOrder::bshd;
};

/// Looks at the datasets that the settings name in `file`, which is input.file; with `gradients` at dout and dlse, too.
/// Throws Error(failure) naming file, dataset, what was found and what was expected.
TensorDescription describe_tensors(hid_t file, const InputSettings& input, bool gradients);

}  // namespace annulus::io
