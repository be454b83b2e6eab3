// Chooses the back end that does the work. Only this file knows which back ends were compiled.
#include "annulus/kernels/backend.hpp"

#include "annulus/core/error.hpp"
#include "annulus/core/free_blocks.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/choice.hpp"
#include "annulus/kernels/cudnn/plans.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/kernels/multiply_add_peak.hpp"

namespace annulus::kernels {
namespace {

/// Returns what is missing for products of TF32 on a device. The string is empty if nothing is missing, or if this
/// build has kernels for TF32 and the machine has no GPU.
std::string what_tf32_lacks() {
  if constexpr (cuda::is_built) {
    if (core::gpu_count() == 0 || cuda::can_multiply_tf32()) return "";
    return fmt::format("the {} has none that this build has code for", core::gpu_name());
  }
  return "this build is for no such GPU";
}

/// Returns what is missing for results made granule by granule. The string is empty if nothing is missing, or if this
/// build has kernels for such results and the machine has no GPU.
std::string what_granules_lack(const core::Shape& shape, core::DType stored, core::Precision precision) {
  if constexpr (cuda::is_built) {
    if (core::gpu_count() == 0 || cuda::has_granules(shape, stored, precision)) return "";
    return fmt::format("the {} has no such matrix units, or too little shared memory", core::gpu_name());
  }
  return "this build is for no GPU with matrix units";
}

}  // namespace

Backend default_backend() {
#if defined(ANNULUS_HAS_HOST_TILES)
  return Backend::host;
#else
  return Backend::device;
#endif
}

Backend default_backend(const WantedOfBackend& wanted) {
  if (wanted.windows_alone) return default_backend();
  for (const LibraryBackend& library : library_backends()) {
    const bool keeps_order = core::why_no_fixed_order(library.backend).empty();
    if ((keeps_order || !wanted.reproducible) && !library.refuses(wanted) && why_no_backend(library.backend).empty())
      return library.backend;
  }
  return default_backend();
}

const BackendFunctions& functions_of(Backend backend) {
  if (backend == Backend::device) return device_backend;
  if (backend == Backend::cudnn) return cudnn_backend();
#if defined(ANNULUS_HAS_HOST_TILES)
  return host_backend;
#else
  core::fail(core::ErrorKind::failure, "{}; expected Backend::device", why_no_backend(backend));
#endif
}

const std::vector<LibraryBackend>& library_backends() {
  static const std::vector<LibraryBackend> all{cudnn_description()};
  return all;
}

const LibraryBackend* library_of(Backend backend) {
  for (const LibraryBackend& one : library_backends()) {
    if (one.backend == backend) return &one;
  }
  return nullptr;
}

std::string why_no_backend(Backend backend) {
  if (backend == Backend::cudnn) return cudnn::is_built() && core::gpu_count() == 0 ? "" : cudnn::why_no_cudnn();
#if !defined(ANNULUS_HAS_HOST_TILES)
  if (backend == Backend::host) return "this build computes on a device and has no host back end";
#endif
  return "";
}

void check_products(Backend backend, core::Precision precision, core::DType stored) {
  core::require(core::takes(precision, stored), [&] {
    return fmt::format("products of {} need tensors of {}; these are {}", name_of(precision),
                       core::stored_for_products(precision), name_of(stored));
  });
  const std::string reason = why_no_products(backend, precision);
  core::require(reason.empty(), [&] { return reason; });
}

void check_granules(const std::string& why_not) {
  core::require(why_not.empty(), [&] {
    return fmt::format(
        "matrix units cannot make reproducible results of these tensors: {}; expected addresses and strides that are "
        "multiples of 16 bytes, or no `reproducible`",
        why_not);
  });
}

std::string why_no_rule(Backend backend) {
  if (library_of(backend) == nullptr) return "";
  return fmt::format("back end {} takes no scores with a cap or a bias", core::name_of(backend));
}

void check_rule(Backend backend, const CallRule& rule) {
  const std::string reason = rule.rule == nullptr ? "" : why_no_rule(backend);
  core::require(reason.empty(), [&] { return reason; });
}

core::Index rule_bytes(Backend backend, const ScoreRule& rule, core::Precision precision) {
  if (backend != Backend::device || !rule.has_bias() || !rule.coordinates) return 0;
  return 2 * rule.coordinates->rows() * core::Index(core::bytes_of(precision));  // device/changed_scores.hpp
}

std::string why_no_value_dim(Backend backend) {
  if (backend == Backend::host) return "";
  return fmt::format("back end {} takes no values of another head size than keys yet", core::name_of(backend));
}

void check_value_dim(Backend backend, const core::Shape& shape) {
  const std::string reason = shape.has_value_dim() ? why_no_value_dim(backend) : "";
  core::require(reason.empty(), [&] { return reason; });
}

core::Precision default_precision(Backend backend, core::DType stored, bool with_statistics, bool any_cut) {
  const core::InstructionSet best = core::best_instruction_set(), set = any_cut ? core::vectors_beside(best) : best;
  const bool has_instruction = set >= core::InstructionSet::avx512_bf16;
  const bool can = why_no_products(backend, core::Precision::bfloat16).empty() && !with_statistics;
  if (stored == core::DType::float16 && can && !any_cut && core::has_matrix_units())
    return core::Precision::three_bfloat16;
  return core::default_precision(stored, can && has_instruction);
}

core::Precision computed_products(const core::Shape& shape, core::Precision precision, bool ruled) {
  const bool by_units = shape.head_dim <= core::most_matrix_dim && !shape.has_value_dim() && !ruled;
  return core::is_split(precision) && !by_units ? core::Precision::float32 : precision;
}

std::string why_no_products(Backend backend, core::Precision precision) {
  const bool on_host = backend == Backend::host;
  if (!core::is_tf32(precision)) {
    return on_host || !core::has_own_products(precision)
               ? ""
               : fmt::format("back end {} has no products of {} yet", core::name_of(backend), core::name_of(precision));
  }
  const std::string lacks = on_host ? "this build computes on the host" : what_tf32_lacks();
  return lacks.empty() ? ""
                       : fmt::format(
                             "products of {} are made by the matrix units of a GPU (NVIDIA, sm_80 and later), "
                             "and {}",
                             core::name_of(precision), lacks);
}

std::string why_no_granules(Backend backend, const core::Shape& shape, core::DType stored, core::Precision precision) {
  if (backend == Backend::host) {
    if (precision != core::Precision::bfloat16 && !core::is_split(precision))
      return fmt::format("the host's matrix units have no products of {}", core::name_of(precision));
    if (shape.head_dim > core::most_matrix_dim)
      return fmt::format("head size {} is more than {}", shape.head_dim, core::most_matrix_dim);
    if (shape.has_value_dim()) return "values have another head size than keys";
    const bool has_units = core::is_split(precision) || core::best_instruction_set() == core::InstructionSet::amx;
    return has_units ? "" : fmt::format("the instruction set {} has no matrix units", host_instruction_set());
  }
  if (backend != Backend::device) return fmt::format("back end {} has no matrix units", core::name_of(backend));
  const std::string reason = cuda::why_no_granules(shape, stored, precision);
  return reason.empty() ? what_granules_lack(shape, stored, precision) : reason;
}

#if !defined(ANNULUS_HAS_HOST_TILES)
double multiply_add_peak(core::Precision) { return 0; }  // builds with host tiles: host/host_peak.cpp
void release_kept_memory() {                             // builds with host tiles: host/host_scratch.cpp
  device::release_kept_lists();
  core::release_free_blocks();
}
#endif

std::string_view host_instruction_set() {
#if defined(ANNULUS_HAS_HOST_TILES)
  return core::name_of(core::best_instruction_set());
#else
  return "none";
#endif
}

}  // namespace annulus::kernels
