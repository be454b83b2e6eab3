// Teams as a GPU runs them, on the host: an execution space for kernels/device that runs one team after another, and
// whose threads are fibres (fibres.hpp).
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <vector>

#include "annulus/kernels/device/teams.hpp"
#include "kernels/fibres.hpp"

namespace annulus::test {

struct FibreSpace {
  inline static Fibres::Order order = Fibres::Order::upwards;
  static int concurrency() { return 1; }
  static void fence() {}
};

/// What the threads of a team share.
class FibreTeam {
 public:
  FibreTeam(int threads, std::size_t scratch_bytes, Fibres::Order order)
      : fibres(threads, 32, order), threads(threads), scratch(scratch_bytes, std::byte{0xff}) {}  // NaN in every type

  /// The last thread that arrives wakes the others.
  void barrier() {
    if (++arrived_ < threads) return fibres.sleep();
    arrived_ = 0;
    for (int i = 0; i < threads; ++i) fibres.wake(i);
  }

  Fibres fibres;
  const int threads;
  std::vector<std::byte> scratch;

 private:
  int arrived_ = 0;
};

/// One thread of a team, with those functions of Kokkos' team members that the kernels use.
class FibreMember {
 public:
  using ScratchSpace = Kokkos::ScratchMemorySpace<Kokkos::Serial>;

  FibreMember(FibreTeam& team, int league_rank, int rank)
      : team_(team),
        scratch_(team.scratch.data(), std::ptrdiff_t(team.scratch.size())),
        league_rank_(league_rank),
        rank_(rank) {}
  int league_rank() const { return league_rank_; }
  int team_rank() const { return rank_; }
  int team_size() const { return team_.threads; }
  void team_barrier() const { team_.barrier(); }
  const ScratchSpace& team_scratch(int /*level*/) const { return scratch_; }

 private:
  FibreTeam& team_;
  ScratchSpace scratch_;
  int league_rank_, rank_;
};

}  // namespace annulus::test

template <>
struct annulus::kernels::device::Teams<annulus::test::FibreSpace> {
  using Member = test::FibreMember;
  using ScratchSpace = Member::ScratchSpace;

  template <class Kernel>
  static void launch(const char* /*label*/, const test::FibreSpace& /*space*/, int teams, int team_size,
                     const Kernel& kernel) {
    for (int league_rank = 0; league_rank < teams; ++league_rank) {
      test::FibreTeam team(team_size, Kernel::scratch_bytes(), test::FibreSpace::order);
      team.fibres.run([&](int rank) { kernel(test::FibreMember(team, league_rank, rank)); });
    }
  }
};
