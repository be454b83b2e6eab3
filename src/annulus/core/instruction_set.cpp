#include "annulus/core/instruction_set.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "annulus/core/amx.hpp"
#include "annulus/core/error.hpp"

namespace annulus::core {
namespace {

constexpr int none = -1;
std::atomic<int> limit{none};

/// On Intel's processors the products of avx512_bf16 are slower than those of avx512: see preferred_limit().
InstructionSet fastest_vectors() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return InstructionSet::avx512;
#endif
  return InstructionSet::avx512_bf16;
}

/// Returns the last usable set that does not come after `most`. There is always such a set, because every processor can
/// use baseline.
InstructionSet best_up_to(InstructionSet most) {
  static const std::vector<InstructionSet> usable = usable_instruction_sets();
  return *std::find_if(usable.rbegin(), usable.rend(), [&](InstructionSet set) { return set <= most; });
}

/// Returns the limit that the user has set in the environment, otherwise preferred_limit().
InstructionSet first_limit() {
  const char* const name = std::getenv(instruction_set_variable);
  if (name == nullptr || *name == '\0') return preferred_limit();
  const auto set = instruction_set_called(name);
  if (set) return *set;
  fail(ErrorKind::usage, "the environment variable {} is '{}', expected baseline, avx2, avx512, avx512_bf16 or amx",
       instruction_set_variable, name);
}

}  // namespace

InstructionSet preferred_limit() { return has_amx() ? InstructionSet::amx : fastest_vectors(); }

InstructionSet vectors_beside(InstructionSet set) {
  return set == InstructionSet::amx ? best_up_to(fastest_vectors()) : set;
}

std::string_view name_of(InstructionSet set) {
  constexpr std::array<std::string_view, 5> names{"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
  static_assert(std::size_t(InstructionSet::amx) + 1 == names.size());
  return names[std::size_t(set)];
}

std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable{InstructionSet::baseline};
#if defined(__x86_64__)
  // The set avx2 also uses F16C, which converts half precision. We do not test for F16C, because every processor with
  // AVX2 and FMA has it, and not every compiler can test for it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx2) usable.push_back(InstructionSet::avx2);
  if (avx512) usable.push_back(InstructionSet::avx512);
  if (avx512 && __builtin_cpu_supports("avx512bf16")) usable.push_back(InstructionSet::avx512_bf16);
#endif
  usable.push_back(InstructionSet::amx);  // without matrix units, vectors compute the bits of amx
  return usable;
}

InstructionSet best_instruction_set() {
  static const InstructionSet first = first_limit();
  return best_up_to(limit == none ? first : InstructionSet(limit.load()));
}

bool has_matrix_units() { return best_instruction_set() == InstructionSet::amx && has_amx(); }

void limit_instruction_set(InstructionSet most) { limit = int(most); }

std::optional<InstructionSet> instruction_set_called(std::string_view name) {
  for (const InstructionSet set : all_instruction_sets) {
    if (name_of(set) == name) return set;
  }
  return std::nullopt;
}

}  // namespace annulus::core
