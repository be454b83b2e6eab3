#include "annulus/report/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "annulus/core/metrics.hpp"

namespace annulus::report {
namespace {

constexpr double quiet_seconds = 1;                                           // shorter work shows no progress
constexpr double terminal_seconds = 0.2, log_seconds = 10, log_share = 0.02;  // see progress.hpp
constexpr int bar_width = 24;
constexpr double least_share = 1e-3;  // before this launch has done this share, no rate and no time left are shown

/// Width of the terminal in characters. The terminal wraps longer lines, and cannot redraw a wrapped line in place.
std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// A rate as text: "8.4 GFLOP/s", "3.1 step/min".
std::string rate_text(double per_second, const std::string& unit) {
  if (per_second >= 0.1) return fmt::format("{:.3g} {}/s", per_second, unit);
  if (60 * per_second >= 0.1) return fmt::format("{:.3g} {}/min", 60 * per_second, unit);
  return fmt::format("{:.3g} {}/h", 3600 * per_second, unit);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  constexpr long long day = 86400;
  if (whole >= 2 * day) return fmt::format("{} days", whole / day);
  const long long h = whole / 3600, m = whole / 60 % 60, s = whole % 60;
  return h > 0 ? fmt::format("{}:{:02}:{:02}", h, m, s) : fmt::format("{}:{:02}", m, s);
}

std::string progress_bar(double share, int width) {
  const int full = std::clamp(int(share * width), 0, width);
  return "[" + std::string(std::size_t(full), '#') + std::string(std::size_t(width - full), '.') + "]";
}

std::string progress_text(double share, double begun, double seconds, const ProgressLine::Work& work,
                          const std::string& where) {
  std::string text = fmt::format("{:3.0f} %  {}", 100 * share, where);
  const double done = share - begun;
  if (done < least_share || seconds <= 0) return text;
  if (work.total > 0) text += ", " + rate_text(done * work.total / seconds, work.unit);
  return text + fmt::format(", {} left", duration_text((1 - share) * seconds / done));
}

ProgressLine::ProgressLine(bool speaks, Work work, double begun)
    : speaks_(speaks),
      terminal_(isatty(STDERR_FILENO) == 1),
      work_(std::move(work)),
      begun_(begun),
      start_(core::wall_seconds()),
      next_(start_ + quiet_seconds) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(double share, const std::string& where) {
  const double now = core::wall_seconds();
  if (!speaks_ || now < next_) return;
  next_ = now + (terminal_ ? terminal_seconds : std::max(log_seconds, log_share * (now - start_)));
  share = std::clamp(share, 0.0, 1.0);
  const std::string text = progress_text(share, begun_, now - start_, work_, where);
  if (terminal_) {
    std::string line = fmt::format("annulus: {} {}", progress_bar(share, bar_width), text);
    line.resize(std::min(line.size(), columns() - 1));
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
  } else {
    std::fprintf(stderr, "annulus: %s\n", text.c_str());
  }
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace annulus::report
