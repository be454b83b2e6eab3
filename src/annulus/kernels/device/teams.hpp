// Teams of threads on an execution space, as both passes' kernels run on them. A template of its own, so that tests let
// the teams of a GPU run where there is none.
#pragma once

#include <Kokkos_Core.hpp>

namespace annulus::kernels::device {

template <class ExecSpace>
struct Teams {
  using Policy = Kokkos::TeamPolicy<ExecSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  using ScratchSpace = typename ExecSpace::scratch_memory_space;

  /// kernel(member) by the threads of `teams` teams, which have scratch memory; does not wait.
  template <class Kernel>
  static void launch(const char* label, const ExecSpace& space, int teams, int team_size, const Kernel& kernel) {
    Policy policy(space, teams, team_size);
    policy.set_scratch_size(0, Kokkos::PerTeam(int(Kernel::scratch_bytes())));
    Kokkos::parallel_for(label, policy, kernel);
  }
};

}  // namespace annulus::kernels::device
