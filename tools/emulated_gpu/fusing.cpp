// If mul and add have no rounding mode, ptxas may make one fma of them. Whether it does may change with its version. So
// a kernel that promises the same bits must give them with and without fma.
#include <algorithm>
#include <iterator>
#include <set>

#include "decoder.hpp"

namespace emulated_gpu {
namespace {

std::set<std::uint32_t> targets_of(const Kernel& kernel) {
  std::set<std::uint32_t> targets(kernel.tables.begin(), kernel.tables.end());
  for (const Instruction& instruction : kernel.code) {
    if (instruction.kind == Kind::branch) targets.insert(instruction.target);
  }
  return targets;
}

}  // namespace

void fuse_products(Kernel& kernel) {
  const std::set<std::uint32_t> targets = targets_of(kernel);
  std::unordered_map<std::uint32_t, Instruction> products;  // since the last branch or label, by row of the result
  for (std::uint32_t at = 0; at < kernel.code.size(); ++at) {
    Instruction& instruction = kernel.code[at];
    if (targets.count(at) != 0) products.clear();
    if (instruction.kind != Kind::plain) {
      products.clear();
      continue;
    }
    for (const char* type : {"f32", "f64"}) {
      const auto is = [&](const char* name) { return instruction.run == handler_of(std::string(name) + "." + type); };
      if (!instruction.may_fuse || instruction.is_guarded || !(is("add") || is("sub"))) continue;
      const auto first = products.find(instruction.of[1]), second = products.find(instruction.of[2]);
      const bool has_first = first != products.end();
      if (!has_first && second == products.end()) continue;
      const char* name = is("add") ? "fused.add." : has_first ? "fused.sub." : "fused.from.";
      const Instruction& product = has_first ? first->second : second->second;
      instruction.of[3] = instruction.of[has_first ? 2 : 1];
      instruction.of[1] = product.of[1];
      instruction.of[2] = product.of[2];
      instruction.run = handler_of(name + std::string(type));
      break;
    }
    // A product cannot be fused after its row, or a row of its factors, was written. Instructions that are no sum or
    // product do not say which of their rows are results: all count as written.
    const auto is_written = [&](std::uint32_t row) {
      if (instruction.may_fuse) return instruction.of[0] == row;
      return std::find(std::begin(instruction.of), std::end(instruction.of), row) != std::end(instruction.of);
    };
    std::erase_if(products, [&](const auto& entry) {
      const Instruction& product = entry.second;
      return is_written(product.of[0]) || is_written(product.of[1]) || is_written(product.of[2]);
    });
    const bool is_product = instruction.may_fuse && !instruction.is_guarded &&
                            (instruction.run == handler_of("mul.f32") || instruction.run == handler_of("mul.f64"));
    if (is_product && instruction.of[0] != instruction.of[1] && instruction.of[0] != instruction.of[2])
      products[instruction.of[0]] = instruction;
  }
}

}  // namespace emulated_gpu
