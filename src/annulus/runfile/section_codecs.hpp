// How values that have parts of their own are read and written: attention.segments and attention.bias, bench.sweep and
// bench.skip.
#pragma once

#include "annulus/runfile/codecs.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::runfile {

/// An entry of attention.segments: rows, `all`, or a window: {window: 4} (a causal row sees itself and 3 rows before
/// it; else 3 on either side), {window: [3, 0]}, {window: [3, 0], first: 4}. Writes the two latter. Leaves a pair's
/// dilation alone.
Codec<pattern::Pair> segment(Index most_rows);

/// attention.bias: {alibi: auto}, or {alibi: [0.5, 0.25], exempt: 1}.
Codec<BiasSettings> bias(Index most_rows);

/// bench.sweep: a list of axes, one at least; of a key a list of values, or a range of whole numbers {from, to, times}
/// or {from, to, step}. Refused with the location: empty lists, keys of one axis with different numbers of values.
Codec<std::vector<SweepAxis>> sweep_axes();
/// bench.skip: a list of conditions, or an empty one.
Codec<std::vector<SkipCondition>> skip_conditions();

}  // namespace annulus::runfile
