#include "annulus/core/kokkos_compat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include "annulus/core/error.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/print.hpp"
#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace annulus::core {

namespace {

/// Limits the number of OpenMP threads to most_kokkos_threads, and warns the user.
void limit_openmp() {
#ifdef KOKKOS_ENABLE_OPENMP
  const int asked = omp_get_max_threads();
  if (asked <= most_kokkos_threads) return;
  print_to_stderr("annulus: warning: {} threads (OMP_NUM_THREADS, or the processors): Kokkos runs at most {}\n", asked,
                  most_kokkos_threads);
  omp_set_num_threads(most_kokkos_threads);
#endif
}

std::string mistake;  // in the options or environment variables of Kokkos; empty: none was found

std::atomic<int> most_host_threads{std::numeric_limits<int>::max()};

}  // namespace

void check_kokkos_threads(std::string_view name, std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && count >= 1 && count <= most_kokkos_threads) return;
  mistake = fmt::format("{} is '{}', expected a whole number from 1 to {}", name, text, most_kokkos_threads);
}

void require_valid_kokkos_options() {
  if (!mistake.empty()) fail(ErrorKind::usage, "{}", mistake);
}

void initialize_kokkos(int& argc, char**& argv, int device) {
  // Options go to Kokkos as words, which all versions understand; the struct of arguments changed its name in 3.7. Only
  // words with the prefix --kokkos- are passed on: version 3.4 would take --help and --threads, too. Kokkos' advice to
  // set OMP_PROC_BIND is silenced: under mpirun that setting would put all ranks of a node on one core.
  std::string quiet = "--kokkos-disable-warnings", gpu;
  const auto is_theirs = [](std::string_view word) { return word.starts_with("--kokkos-"); };
  std::vector<char*> words{argv[0]};
  std::copy_if(argv + 1, argv + argc, std::back_inserter(words), is_theirs);
  const bool names_device = std::any_of(words.begin(), words.end(),
                                        [](std::string_view word) { return word.starts_with("--kokkos-device-id"); });
  char** end = std::remove_if(argv + 1, argv + argc, is_theirs);
  words.push_back(quiet.data());
  const int devices = gpu_count();
  if (devices > 0 && !names_device) {
    gpu = "--kokkos-device-id=" + std::to_string(device % devices);
    words.push_back(gpu.data());
  }
  int count = int(words.size());
  words.push_back(nullptr);
  limit_openmp();
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[std::size_t(i)], name = word.substr(0, word.find('='));
    if (name == word || (name != "--kokkos-threads" && name != "--kokkos-num-threads")) continue;
    check_kokkos_threads(name, word.substr(name.size() + 1));
  }
  if (mistake.empty() && why_no_gpu().empty()) {
    try {
      Kokkos::initialize(count, words.data());
    } catch (const std::exception& error) {
      const std::string_view what = error.what();
      mistake = fmt::format(
          "Kokkos cannot start; look at its options (--kokkos-...) and environment variables (KOKKOS_...): {}",
          what.substr(0, what.find('\n')));
    }
  }
  if (!Kokkos::is_initialized()) {
    count = 1;  // Kokkos does not start, so its options are dropped
  }
  // Kokkos removed the words that it knows; the others go back to the caller, which reports them as unknown.
  for (int i = 1; i < count; ++i) *end++ = words[std::size_t(i)];
  argc = int(end - argv);
  argv[argc] = nullptr;
}

std::string kokkos_version() {
  return fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100);
}

std::string kokkos_backends() {
  const std::string chosen = Kokkos::DefaultExecutionSpace::name();
  std::string all = chosen;
  const auto add = [&](const std::string& name) {
    if (name != chosen) all += ", " + name;
  };
#ifdef KOKKOS_ENABLE_OPENMP
  add(Kokkos::OpenMP::name());
#endif
#ifdef KOKKOS_ENABLE_THREADS
  add(Kokkos::Threads::name());
#endif
#ifdef KOKKOS_ENABLE_SERIAL
  add(Kokkos::Serial::name());
#endif
  return all;
}

std::string device_name() {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  return Kokkos::is_initialized() ? gpu_name() : fmt::format("no GPU ({})", why_no_gpu());
#else
  return how_many(Kokkos::DefaultExecutionSpace().concurrency(), "thread");
#endif
}

void require_device() {
  if (Kokkos::is_initialized()) return;
  fail(ErrorKind::failure,
       "this build computes on a GPU ({}), and this node has none: {}; list, info, plan, generate, verify and "
       "--dry-run work "
       "here",
       kokkos_backends(), why_no_gpu());
}

int host_threads() {
  const int all = Kokkos::is_initialized() ? int(Kokkos::DefaultHostExecutionSpace().concurrency()) : 1;
  return std::min(all, most_host_threads.load());
}
void limit_host_threads(int most) { most_host_threads = std::max(1, most); }

}  // namespace annulus::core
