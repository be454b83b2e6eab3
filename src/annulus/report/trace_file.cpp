#include "annulus/report/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include "annulus/comm/in_turn.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/store/json_text.hpp"

namespace annulus::report {
namespace {

using core::Index;
using core::SpanRecord;
using Json = nlohmann::ordered_json;

/// The events of one rank as text, with one line for each event. A comma comes before each event but the file's first.
class RankEvents {
 public:
  RankEvents(int rank, const std::function<double(double)>& time) : rank_(rank), time_(time) {}

  /// Adds the rank's name in the viewer, the offset of the rank's clock, and how many spans the timeline has forgotten.
  void describe(const core::Timeline& timeline, const comm::ClockOffset& clock) {
    const std::string name = fmt::format("rank {} ({})", rank_, comm::host_name());
    add_metadata("process_name", {{"name", name}});
    add_metadata("process_sort_index", {{"sort_index", rank_}});
    add_metadata("annulus_clock", {{"ahead_seconds", clock.ahead}, {"error_seconds", clock.error}});
    add_metadata("annulus_forgotten",
                 {{"spans", timeline.forgotten()}, {"seconds_each", std::max(0.0, timeline.longest_forgotten())}});
  }

  /// Adds spans in the order in which they begin; a span comes before the spans inside it.
  void add(const core::Timeline& timeline) {
    std::vector<SpanRecord> spans = timeline.spans();
    std::sort(spans.begin(), spans.end(), [](const SpanRecord& a, const SpanRecord& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::unordered_map<std::uint32_t, std::string> names;
    for (const SpanRecord& span : spans) {
      std::string& name = names[span.name];
      if (name.empty()) name = store::text_of(timeline.name(span));
      const Index begin = nanoseconds(span.begin), length = nanoseconds(span.end) - begin;
      begin_event();
      fmt::format_to(std::back_inserter(text_),
                     R"("X","pid":{},"tid":0,"ts":{}.{:03},"dur":{}.{:03},"name":{},"cat":"{}")", rank_, begin / 1000,
                     begin % 1000, length / 1000, length % 1000, name, core::name_of(span.kind));
      if (span.number >= 0) fmt::format_to(std::back_inserter(text_), R"(,"args":{{"number":{}}})", span.number);
      text_ += '}';
    }
  }

  const std::string& text() const { return text_; }

 private:
  void begin_event() {
    if (rank_ > 0 || !text_.empty()) text_ += ",\n";
    text_ += R"({"ph":)";
  }

  void add_metadata(const char* name, const Json& arguments) {
    begin_event();
    text_ += fmt::format(R"("M","pid":{},"tid":0,"name":"{}","args":{}}})", rank_, name, store::text_of(arguments));
  }

  /// Rounds to nanoseconds, because viewers use microseconds, which we write with three decimals. Rounding keeps the
  /// order of times, so a span stays inside the span around it.
  Index nanoseconds(double time) const { return std::max<Index>(0, std::llround(1e9 * time_(time))); }

  int rank_;
  const std::function<double(double)>& time_;
  std::string text_;
};

}  // namespace

TraceFile::TraceFile(const std::string& file, bool overwrite, const comm::Communicator& comm) : comm_(comm) {
  comm::on_root(comm_, [&] { file_.emplace(file, overwrite); });
  first_ = comm::compare_clocks(comm_);
  timeline_.emplace();
}

void TraceFile::finish(const std::vector<std::pair<std::string, std::string>>& about) {
  timeline_->stop();
  const comm::ClockOffset last = comm::compare_clocks(comm_);
  // Time 0 of the trace is the earliest moment at which a rank compared its clock, just before it began to record.
  const double begin = -comm_.max(-comm::to_root_clock(first_, last, first_.at));
  const std::function<double(double)> time = [&](double t) { return comm::to_root_clock(first_, last, t) - begin; };
  RankEvents events(comm_.rank(), time);
  events.describe(*timeline_, comm::better(first_, last));
  events.add(*timeline_);
  std::exception_ptr failed;
  const auto write = [&](const std::string& text) {
    try {
      if (!failed) file_->write(text);
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
  };
  if (comm_.is_root()) {
    Json head = Json::object();
    for (const auto& [name, value] : about) head[name] = value;
    write(fmt::format(R"({{"displayTimeUnit":"ms","otherData":{},"traceEvents":[)"
                      "\n",
                      store::text_of(head)));
  }
  comm::take_in_turn(comm_, events.text(), write);
  comm::on_root(comm_, [&] {
    write("\n]}\n");
    if (failed) std::rethrow_exception(failed);
    file_->publish();
  });
}

}  // namespace annulus::report
