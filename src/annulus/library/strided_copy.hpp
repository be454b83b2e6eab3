// Copies a tensor into another layout.
#pragma once

#include "annulus/library/tensor.hpp"

namespace annulus::library {

/// Sets to(b, row, head, d) = from(b, row, head, d). Both tensors must have the same extents and type, and must not
/// overlap. Returns when the copy is complete.
void copy(const Tensor& from, const Tensor& to);

/// True if the tensor's numbers are contiguous, and the last index changes fastest.
bool is_contiguous(const Tensor& tensor);
/// Returns the bytes of the tensor's numbers, without gaps between them.
Index bytes_of(const Tensor& tensor);

}  // namespace annulus::library
