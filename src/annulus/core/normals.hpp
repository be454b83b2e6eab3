// Makes ranges of the numbers that random.hpp defines, with the processor's vector units.
#pragma once

#include "annulus/core/instruction_set.hpp"
#include "annulus/core/random.hpp"
#include "annulus/core/types.hpp"

namespace annulus::core {

/// Describes the numbers of one tensor: each is `scale` times the number of random.hpp, multiplied in float32 and
/// rounded to `type`. So files of different types hold the same numbers, except for that rounding.
struct Normals {
  std::uint64_t seed = 1;
  TensorId tensor = TensorId::q;
  DType type = DType::float32;
  float scale = 1;
};

/// Writes the numbers with indices numbers.begin ... numbers.end - 1 to host memory, on the calling thread. Every
/// instruction set gives the same bits; this processor must have `set`.
void fill_normals(const Normals& normals, Interval numbers, void* to, InstructionSet set = best_instruction_set());

}  // namespace annulus::core
