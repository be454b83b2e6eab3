// A library for Kokkos Tools: counts regions and kernels by name. When Kokkos ends, it writes the counts to the file
// $ANNULUS_TEST_COUNTS.<process id>, in lines such as "region step 3" and "kernel annulus::attend 12".
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {

std::map<std::string, int> counts;
int depth = 0;  // regions that are open
std::uint64_t kernels = 0;

void count_kernel(const char* name, std::uint64_t* id) {
  ++counts["kernel " + std::string(name)];
  *id = kernels++;
}

}  // namespace

extern "C" {

void kokkosp_push_profile_region(const char* name) {
  ++counts["region " + std::string(name)];
  ++depth;
}
void kokkosp_pop_profile_region() { --depth; }
void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t* id) { count_kernel(name, id); }
void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t, std::uint64_t* id) { count_kernel(name, id); }

void kokkosp_finalize_library() {
  const char* path = std::getenv("ANNULUS_TEST_COUNTS");
  if (path == nullptr) return;
  std::ofstream file(std::string(path) + "." + std::to_string(getpid()));
  for (const auto& [name, count] : counts) file << name << " " << count << "\n";
  file << "regions left open " << depth << "\n";
}
}
