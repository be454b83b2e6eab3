#include "annulus/library/tensor_checks.hpp"

#include <algorithm>
#include <cstdint>

namespace annulus::library {
namespace {

std::string text_of(const std::array<Index, 4>& extents) { return fmt::format("({})", fmt::join(extents, ", ")); }

/// "k", or "k (View 'keys')" where the caller calls it otherwise.
std::string name_of(const Argument& argument) {
  const std::string& label = argument.tensor.label;
  return label.empty() || label == argument.name ? argument.name : fmt::format("{} ({})", argument.name, label);
}

bool lies_on_itself(const Tensor& tensor) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (tensor.extents[i] > 1 && tensor.strides[i] == 0) return true;
  }
  return false;
}

void check_one(const char* pass, int rank, const Argument& argument) {
  const Tensor& tensor = argument.tensor;
  const auto refuse = [&](const std::string& is, const std::string& wanted) {
    core::fail(ErrorKind::usage, "{}: {} {}, the plan of rank {} wants {}", pass, name_of(argument), is, rank, wanted);
  };
  const bool is_empty = std::count(argument.extents.begin(), argument.extents.end(), 0) > 0;
  if (tensor.data == nullptr && !is_empty) refuse("is missing", text_of(argument.extents));
  if (tensor.data == nullptr) return;
  if (tensor.extents != argument.extents) refuse("is " + text_of(tensor.extents), text_of(argument.extents));
  if (tensor.type != argument.type) {
    refuse("is " + std::string(core::name_of(tensor.type)), std::string(core::name_of(argument.type)));
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % core::bytes_of(tensor.type) != 0) {
    refuse("begins inside a number", "aligned numbers");
  }
  if (argument.is_written && lies_on_itself(tensor)) refuse("has a stride of 0", "memory of its own for each number");
}

}  // namespace

void check(const char* pass, int rank, const std::vector<Argument>& arguments) {
  for (const Argument& one : arguments) check_one(pass, rank, one);
  for (const Argument& one : arguments) {
    for (const Argument& other : arguments) {
      if (&one == &other || !one.is_written || one.tensor.data == nullptr) continue;
      if (one.tensor.data != other.tensor.data) continue;
      core::fail(ErrorKind::usage, "{}: {} is written and begins where {} does; expected memory of its own", pass,
                 name_of(one), name_of(other));
    }
  }
}

}  // namespace annulus::library
