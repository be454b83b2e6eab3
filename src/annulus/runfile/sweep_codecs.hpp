// How bench.sweep and bench.skip are read and written.
#pragma once

#include "annulus/runfile/codecs.hpp"
#include "annulus/runfile/sweep.hpp"

namespace annulus::runfile {

/// A list of axes, one at least; of a key a list of values, or a range of whole numbers {from, to, times} or
/// {from, to, step}. Refused with the location: empty lists, keys of one axis with different numbers of values.
Codec<std::vector<SweepAxis>> sweep_axes();

/// A list of conditions, or an empty one.
Codec<std::vector<SkipCondition>> skip_conditions();

}  // namespace annulus::runfile
