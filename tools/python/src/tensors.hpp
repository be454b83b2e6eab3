// Makes the library's tensors from arrays of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "annulus/library/tensor.hpp"

namespace annulus::python {

/// (B, S, heads, D) or (B, S, heads) in memory of this process. Numbers of type bfloat16 are given as uint16.
using InArray = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;
using OutArray = nanobind::ndarray<nanobind::device::cpu>;

/// Throws Error(usage) for another number of axes or another type of numbers.
Tensor tensor_of(const InArray& array, const char* name);
Tensor tensor_of(const OutArray& array, const char* name);

}  // namespace annulus::python
