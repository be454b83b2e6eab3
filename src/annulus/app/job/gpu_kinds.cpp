#include "annulus/app/job/gpu_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "annulus/core/gpu_driver.hpp"

namespace annulus::app {

std::string other_kinds(const std::vector<std::string>& kinds) {
  const auto first = std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return !kind.empty(); });
  const auto other =
      std::find_if(first, kinds.end(), [&](const auto& kind) { return !kind.empty() && kind != *first; });
  if (other == kinds.end()) return "";
  return fmt::format("rank {} has {}, rank {} {}", first - kinds.begin(), *first, other - kinds.begin(), *other);
}

std::string other_kinds(const comm::Communicator& comm) { return other_kinds(comm.gather_all(core::gpu_kind())); }

}  // namespace annulus::app
