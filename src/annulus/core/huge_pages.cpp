#include "annulus/core/huge_pages.hpp"

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace annulus::core {

void ask_for_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] Index bytes) {
#if defined(MADV_HUGEPAGE)
  const auto first = reinterpret_cast<std::uintptr_t>(memory), page = std::uintptr_t(huge_page_bytes);
  const std::uintptr_t begin = (first + page - 1) / page * page, end = (first + std::uintptr_t(bytes)) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace annulus::core
