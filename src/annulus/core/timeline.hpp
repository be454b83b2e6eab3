// Records what this rank does and when, as spans of time. Each span becomes a bar of the trace (output.trace) and a
// region of Kokkos Tools with the same name. Seconds of some kinds also become numbers in /run (core/metrics.hpp).
//
// Without a Timeline and without a Kokkos tool a span costs only two readings of the clock and an entry in
// last_spans.hpp.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// The kind of work during a span.
///   pass     a pass or a training step, from barrier to barrier; in strategy stream also a unit of this rank
///   step     a step of a schedule; step 0 is the work on the rank's own rows
///   compute  the attention kernel: compute_seconds in /run
///   wait     exposed communication: wait_seconds in /run
///   file     reading and writing
///   call     a call of MPI, NCCL or HDF5, or a file operation
///   other    work that /run does not count, such as collecting rows for a message
enum class SpanKind { pass, step, compute, wait, file, call, other };
std::string_view name_of(SpanKind kind);

/// A finished span.
struct SpanRecord {
  double begin = 0, end = 0;  ///< s, wall_seconds()
  std::uint32_t name = 0;     ///< index of the name; Timeline::name() returns the name
  SpanKind kind = SpanKind::other;
  Index number = -1;  ///< number of a step; -1 if the span has no number

  double seconds() const { return end - begin; }
};

/// While it lives, a Timeline records the spans of the thread that made it. A thread has at most one Timeline.
class Timeline {
 public:
  static constexpr std::size_t default_most = 100'000;

  /// Keeps at most `most` spans (2 or more). When there are more, forgets the shorter half, and from then on keeps
  /// only spans that are longer than all forgotten ones. So the record covers the whole run, with fewer details.
  explicit Timeline(std::size_t most = default_most);
  ~Timeline() { stop(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void stop();
  /// Returns the timeline of this thread; nullptr if nothing is recorded.
  static Timeline* current();

  void add(std::string_view name, SpanKind kind, Index number, double begin, double end);

  /// The spans in the order in which they ended.
  const std::vector<SpanRecord>& spans() const { return spans_; }
  const std::string& name(const SpanRecord& span) const { return names_[span.name]; }
  /// Number of forgotten spans. Each of these lasted at most longest_forgotten() seconds.
  Index forgotten() const { return forgotten_; }
  double longest_forgotten() const { return shortest_; }

 private:
  std::uint32_t number_of(std::string_view name);
  void forget_half();

  std::size_t most_;
  std::vector<SpanRecord> spans_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // each name's index in names_
  double shortest_ = -1;                                    // spans up to this length are not kept
  Index forgotten_ = 0;
};

/// Measures the time from its constructor to close() or its destructor. Spans of one thread may nest.
class Span {
 public:
  /// `name` must live as long as the span.
  explicit Span(const char* name, SpanKind kind = SpanKind::other, Index number = -1);
  ~Span() {
    if (open_) close();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// Ends the span; may be called once. Returns its seconds.
  double close();

 private:
  const char* name_;
  SpanKind kind_;
  Index number_;
  bool open_ = true;
  double begin_;
};

/// Does `work` inside a span and returns the result of `work`.
template <class Work>
auto in_span(const char* name, Work&& work) {
  const Span span(name);
  return work();
}

/// Records a call that has returned, if it took at least 20 microseconds. Kokkos Tools do not see such calls.
void note_call(std::string_view name, double begin);

}  // namespace annulus::core
