#include "annulus/kernels/attention.hpp"

#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/cuda/choice.hpp"
#include "annulus/kernels/host/key_parts.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels {

void attend(Backend backend, const core::WorkList& work, const Operands& operands, State& state,
            const std::function<void()>& poll) {
  core::require(operands.q.type == operands.k.type && operands.k.type == operands.v.type, [&] {
    return fmt::format("q, k, v are stored as {}, {}, {}; expected one type", name_of(operands.q.type),
                       name_of(operands.k.type), name_of(operands.v.type));
  });
  check_products(backend, state.precision, operands.q.type);
  check_rule(backend, operands.rule);
  check_value_dim(backend, state.shape);
  if (work.empty()) return;
  const bool by_host = backend == Backend::host && core::has_own_products(state.precision);
  if (state.by_granules && !by_host) check_granules(cuda::why_not_attend(operands, state));
  functions_of(backend).attend(work, operands, state, poll);
}

core::Index attend_bytes(Backend backend, const core::Shape& shape, core::Index rows, core::Precision precision) {
  return functions_of(backend).attend_bytes(shape, rows, precision);
}

core::Index key_parts(Backend backend, const core::Shape& shape, core::Index rows) {
  return backend == Backend::host ? host::key_parts(shape, rows) : 1;
}

core::Index attend_block_rows(Backend backend, const core::Shape& shape, core::Precision precision) {
  const core::Index threads = core::host_threads();
  const core::Index bytes = backend == Backend::host ? threads * tuning::host_block_bytes : tuning::device_block_bytes;
  return std::max<core::Index>(1, bytes / State::acc_bytes(shape, 1, precision));
}

void finish(Backend backend, const State& state, const Finished& to, double output_scale) {
  functions_of(backend).finish(state, to, output_scale);
}

}  // namespace annulus::kernels
