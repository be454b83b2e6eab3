// The schedule of one rank, step by step: `run --dry-run --rank p`.
#pragma once

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// A line for each of the first steps and one for the sum of all. Steps beyond are summed up without being spelled out,
/// so that a rank of 65,536 is printed in a second.
void print_schedule(const Job& job, int rank);

/// What a block of strategy stream reads of the others in the forward pass.
void print_block(const Job& job, int block);

}  // namespace annulus::app
