// Attention problems whose numbers are functions of the global index, and so the same on every rank and machine. The
// numbers are rounded to the storage type first, so that reference and kernel see the same numbers. A misplaced row is
// noticed, because its numbers are wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/normals.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "support/reference_attention.hpp"

namespace annulus::test {

using core::DType;
using core::Index;

/// Calls visit(Number{}) with the C++ type that stores `type`.
template <class Visit>
auto with_storage(DType type, Visit&& visit) {
  switch (type) {
    case DType::float64:
      return visit(double{});
    case DType::float32:
      return visit(float{});
    case DType::float16:
      return visit(core::Half{});
    case DType::bfloat16:
      return visit(core::BFloat16{});
  }
  return visit(double{});
}

/// Precisions that tensors of every type can have.
inline constexpr std::array number_precisions{core::Precision::float32, core::Precision::float64};
/// Precisions that the host's tiles have with every instruction set. 3xbfloat16 and 6xbfloat16, which only the set amx
/// has, are tested in kernels/test_host_split.cpp; products of TF32 in kernels/cuda_kinds.hpp.
inline constexpr std::array host_precisions{core::Precision::float32, core::Precision::float64,
                                            core::Precision::bfloat16};

/// Every storage type with every precision that the host has for it.
inline std::vector<std::pair<DType, core::Precision>> types_and_precisions() {
  std::vector<std::pair<DType, core::Precision>> all;
  for (const DType type : core::all_dtypes) {
    for (const core::Precision precision : host_precisions)
      if (core::takes(precision, type)) all.emplace_back(type, precision);
  }
  return all;
}

/// The numbers rounded to `type`, as they are stored in memory or in a file.
inline std::vector<std::byte> to_storage(const std::vector<double>& values, DType type) {
  std::vector<std::byte> bytes(values.size() * core::bytes_of(type));
  with_storage(type, [&](auto number) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      core::store_as(number, values[i]);
      std::memcpy(bytes.data() + i * sizeof(number), &number, sizeof(number));
    }
  });
  return bytes;
}

/// `count` stored numbers as doubles, without rounding.
inline std::vector<double> from_storage(const void* bytes, Index count, DType type) {
  std::vector<double> values(static_cast<std::size_t>(count));
  with_storage(type, [&](auto number) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&number, static_cast<const std::byte*>(bytes) + i * sizeof(number), sizeof(number));
      values[i] = core::load_as<double>(number);
    }
  });
  return values;
}

/// The values after they were stored in `type`.
inline std::vector<double> rounded(const std::vector<double>& values, DType type) {
  return from_storage(to_storage(values, type).data(), Index(values.size()), type);
}

/// `count` normal numbers times `amplitude`, rounded to `type`; `annulus generate` makes those of amplitude 1.
inline std::vector<double> random_values(core::TensorId tensor, Index count, DType type, std::uint64_t seed = 1,
                                         double amplitude = 1) {
  std::vector<double> values(static_cast<std::size_t>(count));
  core::fill_normals({seed, tensor, DType::float64}, {0, count}, values.data());
  for (double& value : values) value *= amplitude;
  return rounded(values, type);
}

/// The rows of a (B, S, width) tensor that lie in the intervals `rows`, one after another: (B, rows, width).
inline std::vector<double> take_rows(const std::vector<double>& values, Index batch, Index sequence,
                                     const std::vector<core::Interval>& rows) {
  const Index width = batch * sequence > 0 ? Index(values.size()) / (batch * sequence) : 0;
  std::vector<double> taken;
  for (Index b = 0; b < batch; ++b) {
    for (const core::Interval interval : rows) {
      const auto first = values.begin() + (b * sequence + interval.begin) * width;
      taken.insert(taken.end(), first, first + interval.size() * width);
    }
  }
  return taken;
}

/// A tensor in the memory of the default execution space, and its description.
struct DeviceTensor {
  core::Buffer buffer;
  core::TensorView view;
};

/// Copies a (B, rows, heads, D) tensor into memory of the default execution space.
inline DeviceTensor to_device(const std::vector<double>& values, DType type, Index rows, Index heads, Index head_dim) {
  const std::vector<std::byte> bytes = to_storage(values, type);
  DeviceTensor tensor{core::Buffer("test tensor", Index(bytes.size())), {}};
  core::copy_to_device(tensor.buffer.data(), bytes.data(), Index(bytes.size()));
  tensor.view = core::contiguous_view(tensor.buffer.data(), type, rows, heads, head_dim);
  return tensor;
}

/// The normalizers (kernels/normalizer.hpp) that finish() makes for rows with these LSEs: shift and factor of each row.
/// A key with score s2 in base 2 has the probability P = factor 2^(s2 - shift).
inline std::vector<double> normalizers_of(const std::vector<double>& lse) {
  std::vector<double> normalizers;
  for (const double natural : lse) {
    const bool empty = std::isinf(natural);
    const double exact = natural * std::numbers::log2e, shift = std::rint(exact);
    normalizers.push_back(empty ? std::numeric_limits<double>::infinity() : shift);
    normalizers.push_back(empty ? 0 : std::exp2(shift - exact));
  }
  return normalizers;
}

/// Reads `count` numbers of `type` from memory of the default execution space.
inline std::vector<double> from_device(const core::Buffer& buffer, Index count, DType type) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * core::bytes_of(type));
  core::copy_to_host(bytes.data(), buffer.data(), Index(bytes.size()));
  return from_storage(bytes.data(), count, type);
}

/// Fills memory with bytes that are NaN in every type. Results must not contain these NaN.
inline void poison(const core::Buffer& buffer) {
  const std::vector<std::byte> ones(std::size_t(buffer.bytes()), std::byte{0xff});
  core::copy_to_device(buffer.data(), ones.data(), buffer.bytes());
}

/// A whole problem. Its tensors are (B, S, H or Hkv, D or Dv) as doubles that `type` can represent exactly.
struct AttentionCase {
  core::Shape shape;
  kernels::ReferencePattern pattern;
  DType type = DType::float32;
  std::uint64_t seed = 1;
  double amplitude = 1;  ///< of q: large values give large scores

  Index rows() const { return shape.batch * shape.sequence; }
  std::vector<double> q() const { return values(core::TensorId::q, shape.heads * shape.head_dim, amplitude); }
  std::vector<double> k() const { return values(core::TensorId::k, shape.kv_heads * shape.head_dim, 1); }
  std::vector<double> v() const { return values(core::TensorId::v, shape.kv_heads * shape.dim_of_values(), 1); }
  std::vector<double> dout() const { return values(core::TensorId::dout, shape.heads * shape.dim_of_values(), 1); }
  /// (B, S, H)
  std::vector<double> dlse() const { return random_values(core::TensorId::dlse, rows() * shape.heads, type, seed); }
  kernels::ReferenceResult reference() const { return kernels::reference_forward(shape, pattern, q(), k(), v()); }
  /// Gradients for dout() and, if wanted, dlse().
  kernels::ReferenceGradients reference_gradients(bool with_dlse = false) const {
    return kernels::reference_backward(shape, pattern, q(), k(), v(), dout(),
                                       with_dlse ? dlse() : std::vector<double>{});
  }

 private:
  std::vector<double> values(core::TensorId tensor, Index of_row, double size) const {
    return random_values(tensor, rows() * of_row, type, seed, size);
  }
};

}  // namespace annulus::test
