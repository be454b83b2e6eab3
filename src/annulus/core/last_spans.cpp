#include "annulus/core/last_spans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "annulus/core/metrics.hpp"

namespace annulus::core {
namespace {

struct Kept {
  double begin = 0, end = 0;
  SpanKind kind = SpanKind::other;
  Index number = -1;
  std::array<char, 48> name{};  // an array, so that keeping a span allocates no memory
};

struct Ring {
  std::mutex mutex;
  std::array<Kept, most_last_spans> spans{};
  std::size_t ended = 0;
};

/// Never destroyed, because a thread may still read the ring while the program ends.
Ring& ring() {
  static Ring* const one = new Ring;
  return *one;
}

/// Makes a name safe inside a string of JSON, whatever characters the name has.
std::string quoted(const char* name) {
  std::string text;
  for (; *name != 0; ++name) {
    const auto letter = static_cast<unsigned char>(*name);
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter < 0x20 || letter > 0x7e ? '?' : *name;
  }
  return text;
}

}  // namespace

void keep_last_span(std::string_view name, SpanKind kind, Index number, double begin, double end) {
  Ring& all = ring();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Kept& kept = all.spans[all.ended++ % most_last_spans];
  kept = {begin, end, kind, number, {}};
  kept.name[name.copy(kept.name.data(), kept.name.size() - 1)] = 0;
}

std::string last_spans(int rank) {
  Ring& all = ring();
  const double now = wall_seconds();
  std::string text;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (std::size_t i = all.ended - std::min(all.ended, most_last_spans); i < all.ended; ++i) {
    const Kept& kept = all.spans[i % most_last_spans];
    text += fmt::format(R"({{"rank":{},"name":"{}","kind":"{}")", rank, quoted(kept.name.data()), name_of(kept.kind));
    if (kept.number >= 0) text += fmt::format(R"(,"number":{})", kept.number);
    text += fmt::format(",\"seconds\":{:.6f},\"ago\":{:.6f}}}\n", kept.end - kept.begin, now - kept.end);
  }
  return text;
}

}  // namespace annulus::core
