// Defines the orders in which the axes of a tensor can lie in a file. In memory the order is always (batch, rows,
// heads, head_dim).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace annulus::core {

/// bshd: (batch, sequence, heads, head_dim). bhsd: (batch, heads, sequence, head_dim), as PyTorch's attention has it.
enum class AxisOrder { bshd, bhsd };

constexpr std::string_view name_of(AxisOrder order) { return order == AxisOrder::bshd ? "bshd" : "bhsd"; }

/// Returns the index of the sequence axis, or of the heads axis, of a tensor in a file.
constexpr std::size_t sequence_axis(AxisOrder order) { return order == AxisOrder::bshd ? 1 : 2; }
constexpr std::size_t heads_axis(AxisOrder order) { return order == AxisOrder::bshd ? 2 : 1; }

/// Takes one value per axis (extents, an index, names) in the order (batch, sequence, heads, ...), and returns the
/// values in the order of a file. The same call converts back, because the function only swaps two axes.
template <class Entry>
std::vector<Entry> reordered(std::vector<Entry> axes, AxisOrder order) {
  if (order == AxisOrder::bhsd) std::swap(axes.at(1), axes.at(2));
  return axes;
}

}  // namespace annulus::core
