// Which back end does the work: the one place that knows what was compiled.
#include "annulus/kernels/backend.hpp"

#include "annulus/core/error.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/kernels/multiply_add_peak.hpp"

namespace annulus::kernels {

Backend default_backend() {
#if defined(ANNULUS_HAS_HOST_TILES)
  return Backend::host;
#else
  return Backend::device;
#endif
}

const BackendFunctions& functions_of(Backend backend) {
  if (backend == Backend::device) return device_backend;
#if defined(ANNULUS_HAS_HOST_TILES)
  return host_backend;
#else
  core::fail(core::ErrorKind::failure,
             "this build computes on a device and has no host back end; expected Backend::device");
#endif
}

void check_products(Backend backend, core::Precision precision, core::DType stored) {
  core::require(core::takes(precision, stored), [&] {
    return fmt::format("products of {} are taken of tensors of that type; these are {}", name_of(precision),
                       name_of(stored));
  });
  core::require(takes_products(backend, precision),
                [&] { return fmt::format("the device back end takes no products of {}", name_of(precision)); });
}

core::Precision default_precision(Backend backend, core::DType stored) {
  const bool has_instruction = core::best_instruction_set() == core::InstructionSet::avx512_bf16;
  return core::default_precision(stored, has_instruction && takes_products(backend, core::Precision::bfloat16));
}

bool takes_products(Backend backend, core::Precision precision) {
  return backend == Backend::host || precision != core::Precision::bfloat16;
}

#if !defined(ANNULUS_HAS_HOST_TILES)
double multiply_add_peak(core::Precision) { return 0; }       // else host/host_peak.cpp
void release_kept_memory() { device::release_kept_lists(); }  // else host/host_scratch.cpp
#endif

std::string_view host_instruction_set() {
#if defined(ANNULUS_HAS_HOST_TILES)
  return core::name_of(core::best_instruction_set());
#else
  return "none";
#endif
}

}  // namespace annulus::kernels
