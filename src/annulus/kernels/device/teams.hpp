// Teams of threads on an execution space, for the kernels of both passes. The space is a template parameter, so that
// tests can run a GPU's kernels on host threads.
#pragma once

#include <Kokkos_Core.hpp>

namespace annulus::kernels::device {

template <class ExecSpace>
struct Teams {
  using Policy = Kokkos::TeamPolicy<ExecSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  using ScratchSpace = typename ExecSpace::scratch_memory_space;

  /// Calls kernel(member) on each thread of `teams` teams, which have scratch memory. Does not wait.
  template <class Kernel>
  static void launch(const char* label, const ExecSpace& space, int teams, int team_size, const Kernel& kernel) {
    Policy policy(space, teams, team_size);
    policy.set_scratch_size(0, Kokkos::PerTeam(int(Kernel::scratch_bytes())));
    Kokkos::parallel_for(label, policy, kernel);
  }
};

}  // namespace annulus::kernels::device
