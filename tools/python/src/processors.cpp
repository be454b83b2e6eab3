#include "processors.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <set>
#include <string_view>
#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace annulus::python {
namespace {

/// Functions of OpenMP 4.5 that list the places of a runtime, and the processors of each place.
struct Questions {
  int (*num_places)() = nullptr;
  int (*place_num_procs)(int) = nullptr;
  void (*place_proc_ids)(int, int*) = nullptr;
};

std::vector<int> answer(const Questions& ask) {
  std::set<int> all;
  for (int place = 0; place < ask.num_places(); ++place) {
    std::vector<int> ids(std::size_t(std::max(0, ask.place_num_procs(place))));
    ask.place_proc_ids(place, ids.data());
    all.insert(ids.begin(), ids.end());
  }
  return {all.begin(), all.end()};
}

/// Files of the OpenMP runtimes of GCC, LLVM and Intel in this process.
std::vector<std::string> loaded_runtimes() {
  std::vector<std::string> files;
  const auto look = [](dl_phdr_info* info, std::size_t, void* found) {
    const std::string_view file = info->dlpi_name;
    const std::string_view name = file.substr(file.rfind('/') + 1);
    for (const std::string_view runtime : {"libgomp", "libomp", "libiomp"}) {
      if (name.starts_with(runtime)) static_cast<std::vector<std::string>*>(found)->emplace_back(file);
    }
    return 0;
  };
  dl_iterate_phdr(look, &files);
  return files;
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

/// Processors in the places of a runtime that is loaded.
std::vector<int> places_of(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  Questions ask;
  find(library, "omp_get_num_places", ask.num_places);
  find(library, "omp_get_place_num_procs", ask.place_num_procs);
  find(library, "omp_get_place_proc_ids", ask.place_proc_ids);
  const bool knows = ask.num_places != nullptr && ask.place_num_procs != nullptr && ask.place_proc_ids != nullptr;
  const std::vector<int> found = knows ? answer(ask) : std::vector<int>();
  dlclose(library);  // the library stays loaded, as it was before
  return found;
}

/// A set of up to 16,384 processors, because a machine may have more than the 1,024 that a cpu_set_t holds.
class Set {
 public:
  Set() { CPU_ZERO_S(bytes(), set()); }
  cpu_set_t* set() { return words_.data(); }
  std::size_t bytes() const { return words_.size() * sizeof(cpu_set_t); }
  int most() const { return int(bytes() * 8); }

 private:
  std::vector<cpu_set_t> words_ = std::vector<cpu_set_t>(16);  // 1,024 processors each
};

}  // namespace

Processors processors_of_this_process() {
  Processors chosen;
  for (const std::string& file : loaded_runtimes()) {
    std::vector<int> found = places_of(file);
    if (found.size() <= chosen.numbers.size()) continue;
    chosen = {std::move(found), "the places of " + file.substr(file.rfind('/') + 1)};
  }
  if (!chosen.numbers.empty()) return chosen;
  Set mine;
  if (sched_getaffinity(0, mine.bytes(), mine.set()) != 0) return {{}, "unknown: the kernel gave no affinity"};
  for (int i = 0; i < mine.most(); ++i) {
    if (CPU_ISSET_S(std::size_t(i), mine.bytes(), mine.set())) chosen.numbers.push_back(i);
  }
  chosen.source = "the affinity of the calling thread";
  return chosen;
}

std::vector<int> places_of_our_runtime() {
#ifdef KOKKOS_ENABLE_OPENMP
  return answer({omp_get_num_places, omp_get_place_num_procs, omp_get_place_proc_ids});
#else
  return {};
#endif
}

void run_on(const std::vector<int>& processors) {
  Set wanted;
  for (const int i : processors) {
    if (i < wanted.most()) CPU_SET_S(std::size_t(i), wanted.bytes(), wanted.set());
  }
  sched_setaffinity(0, wanted.bytes(), wanted.set());  // refused in some containers: threads stay where they are
}

}  // namespace annulus::python
