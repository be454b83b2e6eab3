#include "tensors.hpp"

#include "annulus/core/exception.hpp"

namespace nb = nanobind;

namespace annulus::python {
namespace {

DType type_of(nb::dlpack::dtype type, const char* name) {
  if (type == nb::dtype<double>()) return DType::float64;
  if (type == nb::dtype<float>()) return DType::float32;
  if (type == nb::dtype<std::uint16_t>()) return DType::bfloat16;
  if (type.code == std::uint8_t(nb::dlpack::dtype_code::Float) && type.bits == 16) return DType::float16;
  throw core::Error(core::ErrorKind::usage, std::string(name) + " has numbers of a type that tensors cannot have");
}

template <class Array>
Tensor describe(const Array& array, const char* name) {
  if (array.ndim() != 3 && array.ndim() != 4) {
    throw core::Error(core::ErrorKind::usage,
                      std::string(name) + " has " + std::to_string(array.ndim()) + " axes, expected (B, S, heads, D)");
  }
  Tensor tensor{const_cast<void*>(static_cast<const void*>(array.data())),
                type_of(array.dtype(), name),
                {1, 1, 1, 1},
                {1, 1, 1, 1},
                ""};
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    tensor.extents[i] = Index(array.shape(i));
    tensor.strides[i] = Index(array.stride(i));
  }
  return tensor;
}

}  // namespace

Tensor tensor_of(const InArray& array, const char* name) { return describe(array, name); }
Tensor tensor_of(const OutArray& array, const char* name) { return describe(array, name); }

}  // namespace annulus::python
