#include "annulus/app/report/pass.hpp"

#include <unistd.h>

#include <cstdio>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::app {
namespace {

constexpr double quiet_seconds = 1;  // what is done sooner needs no progress
constexpr double terminal_seconds = 0.2, log_seconds = 10;

/// Lets a person at the terminal (or reading a job's log) see that work goes on: lines like "annulus:  42 %  hop 1 of
/// 3" on stderr, at most every 0.2 s over one line of a terminal, every 10 s in a log. Short work prints nothing.
class ProgressLine {
 public:
  explicit ProgressLine(bool speaks) : speaks_(speaks) {}
  ~ProgressLine() {
    if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(double share, const std::string& place) {
    const double now = core::wall_seconds();
    if (!speaks_ || now < next_) return;
    next_ = now + (terminal_ ? terminal_seconds : log_seconds);
    const std::string line = fmt::format("annulus: {:3.0f} %  {}", 100 * share, place);
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  const bool speaks_, terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  double next_ = core::wall_seconds() + quiet_seconds;
};

void meet(const comm::Communicator& comm, const std::string& where) {
  const comm::Scope place(where);
  comm.barrier();
}

}  // namespace

Pass run_pass(const comm::Communicator& comm, const std::string& name,
              const std::function<layer::LayerMetrics(const strategies::Progress&)>& work) {
  meet(comm, "the barrier before " + name);  // so that the time below is the pass's, not another rank's reading
  const double start = core::wall_seconds();
  Pass pass;
  try {
    const comm::Scope place(name);
    ProgressLine line(comm.is_root());
    pass.metrics = work([&](double share, const std::string& where) { line.show(share, where); });
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    if (comm.size() == 1) throw;
    std::fprintf(stderr, "annulus: error: rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    comm::abort_job(int(core::ErrorKind::failure));
  }
  meet(comm, "the barrier after " + name);
  pass.seconds = core::wall_seconds() - start;
  pass.peak_bytes = core::memory_ledger().peak();
  return pass;
}

}  // namespace annulus::app
