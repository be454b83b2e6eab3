// Tensors of the library, in memory of the tests, with layouts that callers use.
#pragma once

#include <algorithm>
#include <vector>

#include "annulus/library/passes.hpp"
#include "support/attention_case.hpp"

namespace annulus::test {

/// Layouts of (B, S, H, D). bhsd: rows of a head are contiguous. padded: gaps between rows, as if k and v lay between.
/// reversed: b varies fastest, d slowest (LayoutLeft). behind: bshd, with one number before the tensor in memory.
enum class TensorLayout { bshd, bhsd, padded, reversed, behind };
inline constexpr std::array every_layout{TensorLayout::bshd, TensorLayout::bhsd, TensorLayout::padded,
                                         TensorLayout::reversed, TensorLayout::behind};

inline std::array<Index, 4> strides_of(TensorLayout lies, const std::array<Index, 4>& e) {
  switch (lies) {
    case TensorLayout::bshd:
    case TensorLayout::behind:
      return {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1};
    case TensorLayout::bhsd:
      return {e[1] * e[2] * e[3], e[3], e[1] * e[3], 1};
    case TensorLayout::padded:
      return {e[1] * (e[2] * e[3] + 7), e[2] * e[3] + 7, e[3], 1};
    case TensorLayout::reversed:
      return {1, e[0], e[0] * e[1], e[0] * e[1] * e[2]};
  }
  return {};
}

/// A tensor and its memory.
class TestTensor {
 public:
  /// Fills its memory with NaN.
  TestTensor(DType type, const std::array<Index, 4>& extents, TensorLayout lies = TensorLayout::bshd) {
    tensor_ = {nullptr, type, extents, strides_of(lies, extents), ""};
    const bool empty = std::count(extents.begin(), extents.end(), 0) > 0;
    Index last = first_ = lies == TensorLayout::behind ? 1 : 0;
    for (std::size_t i = 0; i < 4; ++i) last += empty ? 0 : (extents[i] - 1) * tensor_.strides[i];
    memory_ = core::Buffer("test tensor", empty ? 0 : (last + 1) * Index(core::bytes_of(type)));
    poison(memory_);
    tensor_.data = empty ? memory_.data() : memory_.at(first_ * Index(core::bytes_of(type)));
  }
  /// Stores these numbers, which are in the order of (B, rows, H, D).
  TestTensor(const std::vector<double>& values, DType type, const std::array<Index, 4>& extents,
             TensorLayout lies = TensorLayout::bshd)
      : TestTensor(type, extents, lies) {
    std::vector<double> all = stored();
    for (std::size_t i = 0; i < values.size(); ++i) all[place(i)] = values[i];
    const std::vector<std::byte> bytes = to_storage(all, type);
    core::copy_to_device(memory_.data(), bytes.data(), Index(bytes.size()));
  }

  const Tensor& tensor() const { return tensor_; }
  /// Returns the numbers in the order of (B, rows, H, D).
  std::vector<double> values() const {
    const std::vector<double> all = stored();
    const auto& e = tensor_.extents;
    std::vector<double> values(std::size_t(e[0] * e[1] * e[2] * e[3]));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = all[place(i)];
    return values;
  }

 private:
  std::vector<double> stored() const {
    return from_device(memory_, memory_.bytes() / Index(core::bytes_of(tensor_.type)), tensor_.type);
  }
  std::size_t place(std::size_t i) const {
    Index rest = Index(i), place = first_;
    for (std::size_t axis = 4; axis-- > 0;) {
      place += rest % tensor_.extents[axis] * tensor_.strides[axis];
      rest /= tensor_.extents[axis];
    }
    return std::size_t(place);
  }

  core::Buffer memory_;
  Index first_ = 0;  // how many numbers are before the tensor in memory_
  Tensor tensor_;
};

}  // namespace annulus::test
