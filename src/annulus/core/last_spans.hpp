// Keeps the spans that ended last, in every run, so that a message can say what a rank did before the rank stopped.
#pragma once

#include <string>

#include "annulus/core/timeline.hpp"

namespace annulus::core {

inline constexpr std::size_t most_last_spans = 64;

/// Keeps this span. If most_last_spans are kept already, forgets the oldest one. Any thread may call it.
void keep_last_span(std::string_view name, SpanKind kind, Index number, double begin, double end);

/// Returns one line of JSON for each kept span, the oldest first. Times are in seconds; a span ended `ago` seconds ago:
///   {"rank":2,"name":"step","kind":"step","number":7,"seconds":0.512,"ago":3.104}
/// Any thread may call it.
std::string last_spans(int rank);

}  // namespace annulus::core
