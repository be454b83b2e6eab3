#include "annulus/library/tensor_checks.hpp"

#include <algorithm>
#include <cstdint>

namespace annulus::library {
namespace {

std::string text_of(const std::array<Index, 4>& extents) { return fmt::format("({})", fmt::join(extents, ", ")); }

/// Returns "k", or "k (keys)" if the caller's name for the tensor is keys.
std::string name_of(const Argument& argument) {
  const std::string& label = argument.tensor.label;
  return label.empty() || label == argument.name ? argument.name : fmt::format("{} ({})", argument.name, label);
}

/// True if the tensor has no numbers, as on a rank without rows. Then nothing is read or written, so the tensor's
/// address and strides have no effect.
bool is_empty(const std::array<Index, 4>& extents) { return std::count(extents.begin(), extents.end(), 0) > 0; }

/// Returns a question to add to the message if rows and heads of the tensor seem to be exchanged.
std::string question(const Argument& argument) {
  const auto& is = argument.tensor.extents;
  const auto& wanted = argument.extents;
  if (is != std::array{wanted[0], wanted[2], wanted[1], wanted[3]}) return "";
  const std::string_view name = argument.name;
  return fmt::format("; {} has {} {} and {} rows: are the axes in another order? Expected (B, rows, heads, D)", name,
                     is[2], name == "k" || name == "v" ? "key/value heads" : "heads", is[1]);
}

bool overlaps_itself(const Tensor& tensor) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (tensor.extents[i] > 1 && tensor.strides[i] == 0) return true;
  }
  return false;
}

void check_one(const char* pass, const std::string& plan, const Argument& argument) {
  const Tensor& tensor = argument.tensor;
  const auto refuse = [&](const std::string& is, const std::string& wanted) {
    core::fail(ErrorKind::usage, "{}: {} {}, {} wants {}", pass, name_of(argument), is, plan, wanted);
  };
  if (tensor.data == nullptr && !is_empty(argument.extents)) refuse("is missing", text_of(argument.extents));
  if (tensor.data == nullptr) return;
  if (tensor.extents != argument.extents) {
    refuse("is " + text_of(tensor.extents), text_of(argument.extents) + question(argument));
  }
  if (tensor.type != argument.type) {
    refuse("is " + std::string(core::name_of(tensor.type)), std::string(core::name_of(argument.type)));
  }
  if (is_empty(tensor.extents)) return;
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % core::bytes_of(tensor.type) != 0) {
    refuse("is not aligned", "aligned numbers");
  }
  if (argument.is_written && overlaps_itself(tensor)) refuse("has a stride of 0", "memory of its own for each number");
}

}  // namespace

void check(const char* pass, const std::string& plan, const std::vector<Argument>& arguments) {
  for (const Argument& one : arguments) check_one(pass, plan, one);
  for (const Argument& one : arguments) {
    for (const Argument& other : arguments) {
      if (&one == &other || !one.is_written || one.tensor.data == nullptr || is_empty(one.extents)) continue;
      if (one.tensor.data != other.tensor.data) continue;
      core::fail(ErrorKind::usage, "{}: {} is written and begins where {} does; expected memory of its own", pass,
                 name_of(one), name_of(other));
    }
  }
}

}  // namespace annulus::library
