// Runs both passes with one matrix unit of the host, or with the vector code that replaces it.
#pragma once

#include "annulus/kernels/host/backward_runner.hpp"
#include "annulus/kernels/host/forward_runner.hpp"
#include "kernels/band_case.hpp"
#include "kernels/host_backward_case.hpp"

namespace annulus::test {

/// A storage type and a precision of products that the host's matrix units take.
struct MatrixKind {
  DType type;
  core::Precision precision;
  std::string name() const { return fmt::format("{} in {}", core::name_of(type), core::name_of(precision)); }
};
inline const std::vector<MatrixKind> matrix_kinds{{DType::bfloat16, core::Precision::bfloat16},
                                                  {DType::float32, core::Precision::three_bfloat16},
                                                  {DType::float16, core::Precision::three_bfloat16},
                                                  {DType::float32, core::Precision::six_bfloat16}};

/// Which gradients a call computes: dq, dk and dv, or all.
enum class Wanted { queries, keys, both };

/// Replaces -0 by +0, and every NaN by the same NaN.
inline std::vector<double> plain(std::vector<double> x) {
  for (double& y : x) y = std::isnan(y) ? std::nan("") : y + 0.0;
  return x;
}
inline void expect_same(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  const std::vector<double> x = plain(a), y = plain(b);
  ASSERT_EQ(x.size(), y.size());
  EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(double)), 0) << what;
}

inline WorkCase in_kind(const MatrixKind& kind, WorkCase test, double amplitude = 1) {
  test.type = kind.type;
  test.precision = kind.precision;
  test.fill(amplitude);
  return test;
}

/// Runs the calls with one matrix unit, in tiles of these sizes; out is float32.
inline kernels::ReferenceResult answer_by(const WorkCase& test, const kernels::host::MatrixUnit& unit,
                                          const kernels::host::TileSizes& sizes = {}) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision);
  const kernels::Operands operands{q.view, k.view, v.view, test.scale()};
  const auto& tiles = *unit.forward[kernels::host::parts_of(test.precision) - 1];
  for (const core::WorkList& list : test.calls) {
    kernels::host::ForwardRunner<kernels::host::BFloat16Pair> runner(tiles, list, operands, state, sizes);
    for (const kernels::host::Task& task :
         kernels::host::make_tasks(list, shape.batch, runner.layout().max_rows, sizes.rows == 0 ? 1 : 3))
      runner.run(task, [] {});
  }
  const Index numbers = test.query_numbers(), states = test.states();
  const DeviceTensor out = to_device(std::vector<double>(std::size_t(numbers)), DType::float32, test.query_rows,
                                     shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(states)), core::lse_type(test.type), test.query_rows, shape.heads, 1);
  kernels::host::host_finish(state, {out.view, lse.view}, 1, InstructionSet::baseline);
  return {from_device(out.buffer, numbers, DType::float32), from_device(lse.buffer, states, core::lse_type(test.type))};
}

inline BackwardCase gradients_in(const MatrixKind& kind, Index rows, Index keys, Index head_dim, const core::Band& band,
                                 double amplitude = 1) {
  BackwardCase test = backward_case(rows, keys, head_dim, band);
  test.type = kind.type;
  test.precision = kind.precision;
  test.fill_all(amplitude);
  return test;
}

/// The accumulators of dq, dk and dv that one matrix unit makes, from normalizers and delta by the definition.
inline Gradients gradients_by(const BackwardCase& test, const kernels::ReferenceResult& forward,
                              const kernels::host::MatrixUnit& unit, bool by_granules = false,
                              Wanted wanted = Wanted::both) {
  using Pair = kernels::host::BFloat16Pair;
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim, rows = test.query_rows, keys = test.key_rows;
  const auto query_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, rows, shape.heads, D);
  };
  const auto key_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, keys, shape.kv_heads, D);
  };
  const DType wide = DType::float32;
  const DeviceTensor q = query_like(test.q, test.type), k = key_like(test.k, test.type),
                     v = key_like(test.v, test.type), dout = query_like(test.dout, test.type),
                     dq = query_like(std::vector<double>(test.q.size()), wide),
                     dk = key_like(std::vector<double>(test.k.size()), wide),
                     dv = key_like(std::vector<double>(test.v.size()), wide),
                     normalizers = to_device(normalizers_of(forward.lse), wide, rows, shape.heads, 2),
                     delta = to_device(naive_delta(test, forward), wide, rows, shape.heads, 1);
  kernels::BackwardOperands operands{q.view,           k.view,     v.view,       dout.view,
                                     normalizers.view, delta.view, test.scale(), test.output_scale};
  operands.by_granules = by_granules;
  kernels::GradientViews views{dq.view, dk.view, dv.view};
  if (wanted == Wanted::keys) views.dq = {};
  if (wanted == Wanted::queries) views.dk = views.dv = {};
  const auto& tiles = *unit.backward[kernels::host::parts_of(test.precision) - 1];
  for (const core::WorkList& list : test.calls) {
    const kernels::host::BackwardLayout<Pair> layout(tiles, shape, rows);
    const auto tasks =
        kernels::host::make_backward_tasks(list, shape.batch, layout.max_keys, tiles.backward_key_step, 3);
    const kernels::host::GradientSums<Pair> sums(tiles, layout, list, operands, views);
    kernels::host::KeyTasks<Pair, kernels::host::GradientSums<Pair>> runner(tiles, list, layout.chunk_rows, sums,
                                                                            tasks.size());
    for (const kernels::host::BackwardTask& task : tasks)
      runner.run(
          task, [](const auto& ready) { ASSERT_TRUE(ready()) << "tasks come in order"; }, [] {});
  }
  return {from_device(dq.buffer, Index(test.q.size()), wide), from_device(dk.buffer, Index(test.k.size()), wide),
          from_device(dv.buffer, Index(test.v.size()), wide)};
}

}  // namespace annulus::test
