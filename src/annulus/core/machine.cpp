#include "annulus/core/machine.hpp"

namespace annulus::core {

double Machine::seconds_per_gflop(Index head_dim, DType type, Precision precision) const {
  double seconds = kernel.back().seconds_per_gflop;
  for (auto rate = kernel.rbegin(); rate != kernel.rend(); ++rate) {
    if (head_dim <= rate->head_dim) seconds = rate->seconds_per_gflop;
  }
  if (precision == Precision::float64) seconds *= float64_factor;
  if (bytes_of(type) == 2) seconds *= half_factor;
  return seconds;
}

Machine default_machine() {
  Machine machine;
  machine.kernel = {{32, 1 / 30.0}, {64, 1 / 50.0}, {256, 1 / 60.0}};
  machine.inside_node = {1e-6, 1 / 2e9};
  machine.between_nodes = {3e-6, 1 / 1e9};
  machine.ranks_per_node = 16;
  machine.memory_per_rank = 4.0 * (Index(1) << 30);
  return machine;
}

}  // namespace annulus::core
