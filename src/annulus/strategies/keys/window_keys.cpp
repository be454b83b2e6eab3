#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

WindowKeys::WindowKeys(const Setting& setting, const WindowPlan& plan)
    : ReadKeys(setting), plan_(plan), window_(setting.comm(), "kv window", plan.window_bytes(setting.rank())) {
  fill_window(setting.problem, setting.rows(), own_, window_);
  core::timed_wait(setting.hop(0), "publish", [&] { window_.publish(); });
}

void WindowKeys::begin(std::size_t round) {
  finish();
  begin_round(plan_.round(round));
  const pattern::Hops& hops = round_->all();
  for (int h = 0; h < hops.count(setting_.rank()); ++h) {
    setting_.hop(std::size_t(h) + 1).bytes_sent += kv_bytes(setting_.problem, hops.rows_sent(setting_.rank(), h));
  }
  for (std::size_t i = 0; i < slots; ++i) reads_.emplace_back(window_);
}

void WindowKeys::start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                            core::HopMetrics& metrics) {
  core::timed_wait(metrics, "read window", [&] {  // inside a node the copy itself is done here
    const WindowRuns source =
        window_runs(setting_.problem, setting_.partition[std::size_t(from.receive_from)], from.receive);
    const comm::RowBlock block = kv_block(setting_.problem, into.data, into.held, setting_.problem.head_row_bytes());
    metrics.bytes_received += reads_[slot].start(from.receive_from, source.held, source.runs, block);
    metrics.rows_received += into.held;
  });
}

void WindowKeys::progress() {
  for (comm::WindowRead& read : reads_) read.progress();
}

void WindowKeys::finish() {
  reads_.clear();
  ReadKeys::finish();
}

}  // namespace annulus::strategies
