#include "annulus/core/amx.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace annulus::core {

#if defined(__x86_64__) && defined(__linux__)

namespace {

/// True if the processor has the AVX-512 instructions that the kernels use in addition to the tile registers.
bool has_vectors() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16");
}

/// True if the system saves the tile registers of a thread that it interrupts: bits 17 (configuration) and 18 (data)
/// of register XCR0.
bool system_saves_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned osxsave = 1u << 27, tiles = 3u << 17;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & osxsave) == 0) return false;
  unsigned low = 0;
  asm volatile("xgetbv" : "=a"(low) : "c"(0) : "edx");
  return (low & tiles) == tiles;
}

bool ask_for_permission() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, both = amx_bf16 | amx_tile;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & both) == both && has_vectors();
}

std::string_view why_no_amx() {
  static const std::string_view reason = !processor_has_amx() ? "this processor has no AMX for bfloat16"
                                         : !system_saves_tiles() || !ask_for_permission()
                                             ? "the system does not let this process use AMX"
                                             : "";
  return reason;
}

#else

bool processor_has_amx() { return false; }

std::string_view why_no_amx() { return "this processor has no AMX for bfloat16"; }

#endif

}  // namespace annulus::core
