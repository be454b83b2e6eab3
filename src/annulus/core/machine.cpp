#include "annulus/core/machine.hpp"

#include "annulus/core/instruction_set.hpp"

namespace annulus::core {

double Machine::seconds_per_gflop(Index head_dim, DType type, Precision precision) const {
  double seconds = kernel.back().seconds_per_gflop;
  for (auto rate = kernel.rbegin(); rate != kernel.rend(); ++rate) {
    if (head_dim <= rate->head_dim) seconds = rate->seconds_per_gflop;
  }
  if (precision == Precision::bfloat16) return seconds * bfloat16_factor;
  if (precision == Precision::three_bfloat16) return seconds * three_bfloat16_factor;
  if (precision == Precision::six_bfloat16) return seconds * six_bfloat16_factor;
  if (precision == Precision::float64) seconds *= float64_factor;
  if (bytes_of(type) == 2) seconds *= half_factor;
  return seconds;
}

void Machine::take_own_products() {
  // We measured these factors in forward and backward passes at D = 64 and 128. For bfloat16: by_amx with AMX on an
  // Intel Xeon, by_instruction with avx512_bf16 on an AMD EPYC, by_two with avx512 (two multiply-adds for one
  // instruction), in_place_of_amx where avx512 computes the bits of AMX. The other four are for 3xbfloat16 and
  // 6xbfloat16, with AMX and without.
  constexpr double by_amx = 0.18, by_instruction = 0.55, by_two = 1.4, three_by_amx = 0.45, six_by_amx = 0.7,
                   in_place_of_amx = 3, three_in_place = 8, six_in_place = 16;
  const InstructionSet set = best_instruction_set();
  const bool amx = has_matrix_units();
  bfloat16_factor = amx                                  ? by_amx
                    : set == InstructionSet::amx         ? in_place_of_amx
                    : set == InstructionSet::avx512_bf16 ? by_instruction
                                                         : by_two;
  three_bfloat16_factor = amx ? three_by_amx : three_in_place;
  six_bfloat16_factor = amx ? six_by_amx : six_in_place;
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
