// Runs the device back end on a chosen execution space, and lists the spaces that this build has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/launch.hpp"
#include "kernels/work_case.hpp"

namespace annulus::test {

using kernels::device::GpuTuning;
using kernels::device::HostTuning;

/// An execution space, its tuning table, and its team size: on the host all threads are one team.
template <class ExecSpace, class TuningTable>
struct Backend {
  using Space = ExecSpace;
  using Tuning = TuningTable;
  static int team_size() {
    const bool on_host = Kokkos::SpaceAccessibility<ExecSpace, Kokkos::HostSpace>::accessible;
    return on_host ? int(ExecSpace().concurrency()) : GpuTuning::team_size;
  }
};

/// A tuning table in which a test can switch to one launch for each team. A second table for this would make the
/// compiler instantiate all kernels once more.
template <class Table>
struct Tested : Table {
  static inline bool one_team_per_launch = false;
  static double flops_per_launch(int concurrency) {
    return one_team_per_launch ? 1 : Table::flops_per_launch(concurrency);
  }
};
template <class Tuning>
struct OneTeamPerLaunch {
  OneTeamPerLaunch() { Tuning::one_team_per_launch = true; }
  ~OneTeamPerLaunch() { Tuning::one_team_per_launch = false; }
  OneTeamPerLaunch(const OneTeamPerLaunch&) = delete;
  OneTeamPerLaunch& operator=(const OneTeamPerLaunch&) = delete;
};

/// The GPU's tuning table with teams of one thread, which then computes several blocks of a tile.
struct GpuNumbers : GpuTuning {
  static constexpr int team_size = 1;
};

/// A tuning table with other sizes of tiles and blocks. In float, sums of up to 32 numbers of a head lie in registers.
struct OtherTuning : HostTuning {
  static constexpr int rows = 6;
  static constexpr int met = 24;
  static constexpr int columns = 8;
  static constexpr int depth_bytes = 32;
  static constexpr int block_rows = 2;
  static constexpr int block_columns = 4;
  static constexpr int row_parts = 3;
  static constexpr int kept_bytes = 128;
};

#if defined(KOKKOS_ENABLE_CUDA)
using Backends = testing::Types<Backend<Kokkos::Cuda, Tested<GpuTuning>>>;
#elif defined(KOKKOS_ENABLE_HIP)
using Backends = testing::Types<Backend<Kokkos::HIP, Tested<GpuTuning>>>;
#elif defined(KOKKOS_ENABLE_OPENMP)
using Backends =
    testing::Types<Backend<Kokkos::Serial, Tested<HostTuning>>, Backend<Kokkos::OpenMP, Tested<HostTuning>>,
                   Backend<Kokkos::OpenMP, Tested<GpuNumbers>>>;
#else
using Backends =
    testing::Types<Backend<Kokkos::Serial, Tested<HostTuning>>, Backend<Kokkos::Serial, Tested<GpuNumbers>>>;
#endif
/// Bits are the same on every execution space, so one space is enough for the test of other tiles.
using OtherBackend = Backend<Kokkos::DefaultExecutionSpace, OtherTuning>;

/// Calls visit(Backend{}) for each back end of a list.
template <template <class...> class List, class... Each, class Visit>
void for_each_backend(List<Each...>, const Visit& visit) {
  (visit(Each{}), ...);
}

/// Checks that all threads of a host space are one team: four threads with OMP_NUM_THREADS=4. (On GPUs 128.)
/// Smaller teams would prove less.
template <class Backend>
void expect_teams_of_all_threads() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  ASSERT_NE(threads, nullptr) << "start this program with OMP_NUM_THREADS set";
  const std::string space = Backend::Space::name();
  EXPECT_EQ(Backend::team_size(), space == "OpenMP" ? std::stoi(threads) : space == "Serial" ? 1 : 128);
}

/// Expects one poll for each launch; on a GPU perhaps more, because the caller also polls while a launch runs.
template <class Space>
void expect_polls(Index polls, Index launches) {
  EXPECT_GE(polls, launches);
  if (Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible) {
    EXPECT_EQ(polls, launches);
  }
}

/// One list: 70 rows of two batch entries and three heads; each row sees the rows up to itself.
template <class AnyCase>
AnyCase triangle_case() {
  AnyCase test;
  test.shape = {2, 0, 3, 1, 5};
  test.query_rows = test.key_rows = 70;
  test.calls.resize(1);
  test.calls[0].runs = {{0, 0, 1, 70}};
  test.calls[0].items = {{{0, 1, 70}, {0, 1, 70}, 0, 0, 1, 3, core::Band::upto}};
  return test;
}

/// Three rows of eight float16 numbers, stored twice: close together, and 1.1e9 numbers apart, so that the last row
/// begins beyond number 2^31. On a host the pages between rows are never touched and take no memory.
struct FarRows {
  static constexpr Index rows = 3, stride = 1'100'000'000, D = 8, count = rows * D;
  static constexpr DType type = DType::float16;

  FarRows()
      : values(random_values(core::TensorId::k, count, type)),
        close(to_device(values, type, rows, 1, D)),
        far("test tensor", ((rows - 1) * stride + D) * 2) {
    const std::vector<std::byte> bytes = to_storage(values, type);
    for (Index row = 0; row < rows; ++row) {
      core::copy_to_device(far.at(row * stride * 2), bytes.data() + row * D * 2, D * 2);
    }
    list.runs = {{0, 0, 1, rows}};
    list.items = {{{0, 1, rows}, {0, 1, rows}, 0, 0, 1, 1}};
  }
  core::TensorView keys(bool spread) const {
    return spread ? core::TensorView{far.data(), type, rows * stride, stride, D} : close.view;
  }

  std::vector<double> values;
  DeviceTensor close;
  core::Buffer far;
  core::WorkList list;  ///< every row sees every row
};

/// Calls attend(list, operands, state) for each list, finishes on ExecSpace, and returns out and lse.
template <class ExecSpace, class Attend>
kernels::ReferenceResult answer_on(const WorkCase& test, const Attend& attend) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision, kernels::reproducible_exponent_bias);
  poison(state.acc);
  for (const core::WorkList& list : test.calls)
    attend(list, kernels::Operands{q.view, k.view, v.view, test.scale(), test.call_rule()}, state);
  // 1234 is never a result, so that a test notices an element that no kernel writes.
  const Index rows = test.states();
  const DType lse_type = core::lse_type(test.type);
  const std::vector<double> unwritten(std::size_t(rows * shape.head_dim), 1234.0);
  const DeviceTensor out = to_device(unwritten, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(rows), 1234.0), lse_type, test.query_rows, shape.heads, 1);
  kernels::device::launch_finish<ExecSpace>(state, {out.view, lse.view}, test.output_scale);
  return {from_device(out.buffer, rows * shape.head_dim, test.type), from_device(lse.buffer, rows, lse_type)};
}

/// The device back end's answer on ExecSpace with the given tuning table and team size.
template <class ExecSpace, class Tuning>
kernels::ReferenceResult device_answer(const WorkCase& test, int team_size, const std::function<void()>& poll = {}) {
  return answer_on<ExecSpace>(test, [&](const auto& list, const auto& operands, auto& state) {
    kernels::device::launch_attend<ExecSpace, Tuning>(list, operands, state, poll, team_size);
  });
}

}  // namespace annulus::test
