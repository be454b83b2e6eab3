#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

WindowKeys::WindowKeys(const PassContext& context, const WindowPlan& plan)
    : ReadKeys(context), plan_(plan), window_(context.comm(), "kv window", plan.window_bytes(context.rank())) {
  fill_window(context.problem, context.rows(), own_, window_);
  core::timed_wait(context.hop(0), "publish", [&] { window_.publish(); });
}

void WindowKeys::begin(std::size_t round) {
  begin_round(plan_.round(round));
  const pattern::Hops& hops = round_->all();
  for (int h = 0; h < hops.count(context_.rank()); ++h) {
    context_.hop(std::size_t(h) + 1).bytes_sent += kv_bytes(context_.problem, hops.rows_sent(context_.rank(), h));
  }
  for (std::size_t i = 0; i < slots; ++i) reads_.emplace_back(window_);
}

void WindowKeys::start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                            core::HopMetrics& metrics) {
  core::timed_wait(metrics, "read window", [&] {  // inside a node MPI copies the rows during this call
    const WindowRuns source =
        window_runs(context_.problem, context_.partition[std::size_t(from.receive_from)], from.receive);
    const comm::RowBlock block = kv_block(context_.problem, into.data, into.held, context_.problem.head_kv_bytes());
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
