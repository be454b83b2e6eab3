#include "annulus/core/instruction_set.hpp"

#include <algorithm>
#include <atomic>

namespace annulus::core {
namespace {

constexpr int none = -1;
std::atomic<int> limit{none};

}  // namespace

InstructionSet preferred_limit() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return InstructionSet::avx512;
#endif
  return InstructionSet::avx512_bf16;
}

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx512_bf16:
      return "avx512_bf16";
  }
  return "";
}

std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable{InstructionSet::baseline};
#if defined(__x86_64__)
  // Every processor with AVX2 and FMA also converts half precision (F16C), which not every compiler can ask for.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx2) usable.push_back(InstructionSet::avx2);
  if (avx512) usable.push_back(InstructionSet::avx512);
  if (avx512 && __builtin_cpu_supports("avx512bf16")) usable.push_back(InstructionSet::avx512_bf16);
#endif
  return usable;
}

InstructionSet best_instruction_set() {
  static const InstructionSet best = usable_instruction_sets().back();
  if (limit == none) return std::min(best, preferred_limit());
  return std::min(best, InstructionSet(limit.load()));
}

void limit_instruction_set(InstructionSet most) { limit = int(most); }

std::optional<InstructionSet> instruction_set_called(std::string_view name) {
  for (const InstructionSet set : all_instruction_sets) {
    if (name_of(set) == name) return set;
  }
  return std::nullopt;
}

}  // namespace annulus::core
