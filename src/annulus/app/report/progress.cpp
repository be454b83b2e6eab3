#include "annulus/app/report/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "annulus/core/metrics.hpp"

namespace annulus::app {
namespace {
constexpr double quiet_seconds = 1;  // what is done sooner needs no progress
constexpr double terminal_seconds = 0.2;
constexpr double log_seconds = 10;
}  // namespace

ProgressLine::ProgressLine(bool speaks)
    : speaks_(speaks), terminal_(isatty(STDERR_FILENO) == 1), next_(core::wall_seconds() + quiet_seconds) {}

ProgressLine::~ProgressLine() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(double share, const std::string& place) {
  const double now = core::wall_seconds();
  if (!speaks_ || now < next_) return;
  next_ = now + (terminal_ ? terminal_seconds : log_seconds);
  const std::string line = fmt::format("annulus: {:3.0f} %  {}", 100 * share, place);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace annulus::app
