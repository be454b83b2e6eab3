// Reads and writes values that have several parts: attention.segments, attention.bias, bench.sweep and bench.skip.
#pragma once

#include "annulus/runfile/codecs.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::runfile {

/// An entry of attention.segments: a number of rows, `all`, or a window. {window: 4} means that a row sees itself, 3
/// rows before it and, if attention is not causal, 3 rows after it. write() writes all windows in the form
/// {window: [3, 0]} or {window: [3, 0], first: 4} (pattern::Window). read() does not change the pair's dilation.
Codec<pattern::Pair> segment(Index most_rows);

/// attention.bias: {alibi: auto}, or {alibi: [0.5, 0.25], exempt: 1}.
Codec<BiasSettings> bias(Index most_rows);

/// bench.sweep: a list of at least one axis. A key has a list of values, or a range of whole numbers {from, to, times}
/// or {from, to, step}. Refuses empty lists, and keys of one axis that differ in their number of values.
Codec<std::vector<SweepAxis>> sweep_axes();
/// bench.skip: a list of conditions, which may be empty.
Codec<std::vector<SkipCondition>> skip_conditions();

}  // namespace annulus::runfile
