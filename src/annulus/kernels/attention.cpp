// Which back end does the work.
#include "annulus/kernels/attention.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "annulus/core/buffer.hpp"
#include "annulus/core/error.hpp"
#include "annulus/kernels/device/device_backend.hpp"
#include "annulus/kernels/tuning.hpp"
#if defined(ANNULUS_HAS_HOST_TILES)
#include "annulus/kernels/host/host_backend.hpp"
#else
#include "annulus/kernels/no_host_backend.hpp"
#endif

namespace annulus::kernels {

using core::TensorView;

namespace {

void check(const Operands& operands) {
  core::require(operands.q.type == operands.k.type && operands.k.type == operands.v.type, [&] {
    return fmt::format("q, k, v are stored as {}, {}, {}; expected one type", name_of(operands.q.type),
                       name_of(operands.k.type), name_of(operands.v.type));
  });
}

}  // namespace

Backend default_backend() { return core::device_is_host() ? Backend::host : Backend::device; }

std::string_view host_instruction_set() {
#if defined(ANNULUS_HAS_HOST_TILES)
  return core::name_of(core::best_instruction_set());
#else
  return "none";
#endif
}

bool reproducible(Backend) { return true; }

void attend(Backend backend, const core::WorkList& work, const Operands& operands, State& state,
            const std::function<void()>& poll) {
  check(operands);
  if (work.empty()) return;
  if (backend == Backend::device) {
    device_attend(work, operands, state, poll);
    return;
  }
#if defined(ANNULUS_HAS_HOST_TILES)
  host::host_attend(work, operands, state, poll);
#else
  no_host_backend();
#endif
}

core::Index attend_bytes(Backend backend, [[maybe_unused]] const core::Shape& shape, [[maybe_unused]] core::Index rows,
                         [[maybe_unused]] core::Precision precision) {
  if (backend == Backend::device) return 0;
#if defined(ANNULUS_HAS_HOST_TILES)
  return host::host_attend_bytes(shape, rows, precision);
#else
  no_host_backend();
#endif
}

core::Index attend_block_rows(Backend backend, const core::Shape& shape, core::Precision precision) {
  const core::Index threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  const core::Index bytes =
      backend == Backend::device ? tuning::device_block_bytes : threads * tuning::host_block_bytes;
  return std::max<core::Index>(1, bytes / State::acc_bytes(shape, 1, precision));
}

void finish(Backend backend, const State& state, const Finished& to, double output_scale) {
  if (backend == Backend::device) {
    device_finish(state, to, output_scale);
    return;
  }
#if defined(ANNULUS_HAS_HOST_TILES)
  host::host_finish(state, to, output_scale);
#else
  no_host_backend();
#endif
}

}  // namespace annulus::kernels
