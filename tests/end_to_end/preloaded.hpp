// What libraries that are preloaded into the program share: they know what to do from environment variables.
#pragma once

#include <cstdlib>
#include <string_view>

namespace annulus::test {

/// Empty where there is none.
inline std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// This process has the rank that the variable names; without a launcher it is 0.
inline bool is_rank_of(const char* name) {
  std::string_view rank = variable("OMPI_COMM_WORLD_RANK");
  if (rank.empty()) rank = variable("PMI_RANK");
  return variable(name) == (rank.empty() ? "0" : rank);
}

}  // namespace annulus::test
