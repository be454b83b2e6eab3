// What the libraries share that tests preload into annulus. These libraries read from environment variables what to do.
#pragma once

#include <cstdlib>
#include <string_view>

namespace annulus::test {

/// The value of an environment variable; empty if it is not set.
inline std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// True if the variable has this process's rank as its value. Without a launcher the rank is 0.
inline bool is_rank_of(const char* name) {
  std::string_view rank = variable("OMPI_COMM_WORLD_RANK");
  if (rank.empty()) rank = variable("PMI_RANK");
  return variable(name) == (rank.empty() ? "0" : rank);
}

}  // namespace annulus::test
