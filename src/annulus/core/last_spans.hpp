// The spans that ended last, kept always, for whoever has to say what a rank did before it came to a stop.
#pragma once

#include <string>

#include "annulus/core/timeline.hpp"

namespace annulus::core {

inline constexpr std::size_t most_last_spans = 64;

/// Keeps this one and forgets the oldest. Any thread.
void keep_last_span(std::string_view name, SpanKind kind, Index number, double begin, double end);

/// A line of JSON for each, the oldest first; times in seconds:
///   {"rank":2,"name":"step","kind":"step","number":7,"seconds":0.512,"ago":3.104}
/// Any thread.
std::string last_spans(int rank);

}  // namespace annulus::core
