// Stretches of the numbers that random.hpp defines, on the processor's vector units.
#pragma once

#include "annulus/core/instruction_set.hpp"
#include "annulus/core/random.hpp"
#include "annulus/core/types.hpp"

namespace annulus::core {

/// The numbers of one tensor, and how they are stored: scale * number of random.hpp, a float32 product,
/// rounded to `type`. So files of different types hold the same numbers, as far as the type goes.
struct Normals {
  std::uint64_t seed = 1;
  TensorId tensor = TensorId::q;
  DType type = DType::float32;
  float scale = 1;
};

/// Writes numbers.begin ... numbers.end - 1 to host memory, on the calling thread. Every instruction set makes the same
/// bits; `set` must be a usable one.
void fill_normals(const Normals& normals, Interval numbers, void* to, InstructionSet set = best_instruction_set());

}  // namespace annulus::core
