#include "annulus/core/timeline.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>

#include "annulus/core/error.hpp"
#include "annulus/core/last_spans.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::core {
namespace {

thread_local Timeline* this_threads = nullptr;

constexpr double shortest_call = 2e-5;      // s
constexpr std::size_t most_names = 10'000;  // a limit is needed, because names of calls contain names of files

}  // namespace

std::string_view name_of(SpanKind kind) {
  constexpr std::array<std::string_view, 7> names{"pass", "step", "compute", "wait", "file", "call", "other"};
  static_assert(std::size_t(SpanKind::other) + 1 == names.size());
  return names[std::size_t(kind)];
}

Timeline::Timeline(std::size_t most) : most_(most) {
  require(this_threads == nullptr, [] { return "this thread has a timeline already"; });
  this_threads = this;
}

void Timeline::stop() {
  if (this_threads == this) this_threads = nullptr;
}

Timeline* Timeline::current() { return this_threads; }

void Timeline::add(std::string_view name, SpanKind kind, Index number, double begin, double end) {
  if (end - begin > shortest_ && spans_.size() == most_) forget_half();
  if (end - begin <= shortest_) {
    ++forgotten_;
  } else {
    spans_.push_back({begin, end, number_of(name), kind, number});
  }
}

std::uint32_t Timeline::number_of(std::string_view name) {
  if (const auto found = numbers_.find(std::string(name)); found != numbers_.end()) return found->second;
  if (names_.size() >= most_names) name = "another";
  const auto [entry, is_new] = numbers_.try_emplace(std::string(name), std::uint32_t(names_.size()));
  if (is_new) names_.emplace_back(name);
  return entry->second;
}

void Timeline::forget_half() {
  std::vector<double> seconds;
  for (const SpanRecord& span : spans_) seconds.push_back(span.seconds());
  const auto middle = seconds.begin() + std::ptrdiff_t(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  shortest_ = *middle;
  forgotten_ += Index(std::erase_if(spans_, [&](const SpanRecord& span) { return span.seconds() <= shortest_; }));
}

Span::Span(const char* name, SpanKind kind, Index number) : name_(name), kind_(kind), number_(number) {
  Kokkos::Profiling::pushRegion(name);
  begin_ = wall_seconds();
}

double Span::close() {
  const double end = wall_seconds();
  open_ = false;
  Kokkos::Profiling::popRegion();
  if (Timeline* const timeline = Timeline::current()) timeline->add(name_, kind_, number_, begin_, end);
  keep_last_span(name_, kind_, number_, begin_, end);
  return end - begin_;
}

void note_call(std::string_view name, double begin) {
  Timeline* const timeline = Timeline::current();
  if (timeline == nullptr) return;
  const double end = wall_seconds();
  if (end - begin >= shortest_call) timeline->add(name, SpanKind::call, -1, begin, end);
}

}  // namespace annulus::core
