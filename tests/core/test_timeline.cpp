#include "annulus/core/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "annulus/core/error.hpp"
#include "annulus/core/last_spans.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::core {
namespace {

TEST(Timeline, KeepsSpansWithWhatTheyAre) {
  Timeline timeline;
  double outer = 0, inner = 0;
  {
    Span step("step", SpanKind::step, 3);
    Span pack("pack");
    inner = pack.close();
    outer = step.close();
  }
  ASSERT_EQ(timeline.spans().size(), 2u);
  const SpanRecord &pack = timeline.spans()[0], &step = timeline.spans()[1];
  EXPECT_EQ(timeline.name(pack), "pack");
  EXPECT_EQ(pack.kind, SpanKind::other);
  EXPECT_EQ(pack.number, -1);
  EXPECT_EQ(pack.seconds(), inner);
  EXPECT_EQ(timeline.name(step), "step");
  EXPECT_EQ(step.kind, SpanKind::step);
  EXPECT_EQ(step.number, 3);
  EXPECT_EQ(step.seconds(), outer);
  EXPECT_LE(step.begin, pack.begin);
  EXPECT_LE(pack.end, step.end);
}

TEST(Timeline, AnErrorEndsTheSpansThatItPasses) {
  Timeline timeline;
  EXPECT_THROW(in_span("work", [] { throw 1; }), int);
  ASSERT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(timeline.name(timeline.spans()[0]), "work");
}

TEST(LastSpans, AreTheNewest64WithoutATimeline) {
  for (int number = 0; number < 70; ++number) Span("before", SpanKind::step, number).close();
  Span(R"(a "quoted" name)").close();
  const std::string text = last_spans(2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 64);
  // 71 spans: steps 7 to 69, and one more.
  EXPECT_EQ(text.find(R"({"rank":2,"name":"before","kind":"step","number":7,"seconds":)"), 0u) << text;
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  EXPECT_EQ(text.substr(last).find(R"({"rank":2,"name":"a \"quoted\" name","kind":"other","seconds":)"), 0u) << text;
  keep_last_span(std::string(100, 'x'), SpanKind::wait, -1, 1, 3);
  EXPECT_NE(last_spans(0).find('"' + std::string(47, 'x') + R"(","kind":"wait","seconds":2.000000,"ago":)"),
            std::string::npos);
}

TEST(Timeline, MetricsAreSumsOfItsSpans) {
  HopMetrics metrics;
  Timeline timeline;
  timed_wait(metrics, [] {});
  timed_wait(metrics, "post", [] {});
  timed_compute(metrics, [] {});
  double waits = 0, computes = 0;
  for (const SpanRecord& span : timeline.spans()) {
    (span.kind == SpanKind::wait ? waits : computes) += span.seconds();
  }
  ASSERT_EQ(timeline.spans().size(), 3u);
  EXPECT_EQ(timeline.name(timeline.spans()[0]), "wait");
  EXPECT_EQ(timeline.name(timeline.spans()[1]), "post");
  EXPECT_EQ(metrics.wait_seconds, waits);
  EXPECT_EQ(metrics.compute_seconds, computes);
}

TEST(Timeline, IsThereOnceOnItsOwnThreadUntilItsEnd) {
  EXPECT_EQ(Timeline::current(), nullptr);
  {
    Timeline timeline;
    EXPECT_EQ(Timeline::current(), &timeline);
    EXPECT_THROW(Timeline(), Error);
    EXPECT_EQ(Timeline::current(), &timeline);
    std::thread([] { EXPECT_EQ(Timeline::current(), nullptr); }).join();
    timeline.stop();
    EXPECT_EQ(Timeline::current(), nullptr);
    { const Span late("late"); }
    EXPECT_TRUE(timeline.spans().empty());
  }
  EXPECT_EQ(Timeline::current(), nullptr);
  const Span alone("alone");  // without a timeline: no error
}

TEST(Timeline, ForgetsTheShortestWhenThereAreTooMany) {
  Timeline timeline(100);
  const int count = 10'000;
  for (int i = 0; i < count; ++i) {  // lengths 1 ... 9973, in an order that mixes them
    const int length = 1 + int(std::int64_t(i) * 7919 % 9973);
    timeline.add("a", SpanKind::other, length, i, i + length);
    ASSERT_LE(timeline.spans().size(), 100u);
  }
  ASSERT_GT(timeline.spans().size(), 10u);
  EXPECT_EQ(timeline.forgotten() + Index(timeline.spans().size()), count);
  Index longest = 0;
  for (const SpanRecord& span : timeline.spans()) {
    EXPECT_GT(span.seconds(), timeline.longest_forgotten());
    longest = std::max(longest, span.number);
  }
  EXPECT_EQ(longest, 9973);
  EXPECT_GT(timeline.longest_forgotten(), 9000);
}

TEST(Timeline, SpansOfOneLengthAreForgottenAlike) {
  Timeline timeline(4);
  for (int i = 0; i < 10; ++i) timeline.add("a", SpanKind::other, i, i, i + 1);
  EXPECT_EQ(timeline.forgotten() + Index(timeline.spans().size()), 10);
  EXPECT_LE(timeline.spans().size(), 4u);
}

TEST(Timeline, NamesAreFew) {
  Timeline timeline;
  for (int i = 0; i < 12'000; ++i) timeline.add(std::to_string(i), SpanKind::call, -1, 0, 1);
  EXPECT_EQ(timeline.name(timeline.spans()[9'999]), "9999");
  EXPECT_EQ(timeline.name(timeline.spans()[10'000]), "another");
  EXPECT_EQ(timeline.name(timeline.spans()[11'999]), "another");
  timeline.add("7", SpanKind::call, -1, 0, 1);
  EXPECT_EQ(timeline.name(timeline.spans().back()), "7");
}

TEST(Timeline, CallsThatTakeNoTimeAreNotKept) {
  note_call("without a timeline", wall_seconds() - 1);
  Timeline timeline;
  note_call("short", wall_seconds() + 1000);
  EXPECT_TRUE(timeline.spans().empty());
  note_call("long", wall_seconds() - 1);
  ASSERT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(timeline.name(timeline.spans()[0]), "long");
  EXPECT_EQ(timeline.spans()[0].kind, SpanKind::call);
  EXPECT_GE(timeline.spans()[0].seconds(), 1);
}

}  // namespace
}  // namespace annulus::core
