#include "annulus/strategies/keys/window_keys.hpp"

namespace annulus::strategies {

WindowKeys::WindowKeys(const Setting& setting, const WindowPlan& plan)
    : SourceOf(setting),
      plan_(plan),
      own_(own_block(setting.tensors, setting.rows())),
      window_(setting.comm, "kv window", plan.window_bytes(setting.rank())) {
  fill_window(setting.problem, setting.rows(), own_, window_);
  core::timed_wait(setting.hop(0), "publish", [&] { window_.publish(); });
}

void WindowKeys::begin(std::size_t round) {
  finish();
  round_ = &plan_.round(round);
  started_ = 0;
  setting_.metrics.hops.resize(std::max(setting_.metrics.hops.size(), round_->hops(setting_.rank())));
  const pattern::Hops& hops = round_->all();
  for (int h = 0; h < hops.count(setting_.rank()); ++h) {
    setting_.hop(std::size_t(h) + 1).bytes_sent += kv_bytes(setting_.problem, hops.rows_sent(setting_.rank(), h));
  }
  const std::array<Index, slots> bytes = round_->slot_bytes(setting_.rank());
  for (std::size_t i = 0; i < slots; ++i) {
    buffers_[i] = core::Buffer("prefetch buffers", bytes[i]);
    reads_.emplace_back(window_);
  }
}

/// Its buffer is free again when the kernel is done with read i - slots.
void WindowKeys::start_read(std::size_t i) {
  core::HopMetrics& metrics = setting_.hop(hop(i + 1));
  core::timed_wait(metrics, "read window", [&] {  // inside a node the copy itself is done here
    const pattern::Hop from = round_->all().hop(setting_.rank(), round_->read(setting_.rank(), i + 1));
    const WindowRuns source =
        window_runs(setting_.problem, setting_.partition[std::size_t(from.receive_from)], from.receive);
    const Index rows = pattern::head_rows(from.receive);
    blocks_[i % slots] = {buffers_[i % slots].data(), rows, pattern::KeyRows::packed(from.receive)};
    const comm::RowBlock into =
        kv_block(setting_.problem, buffers_[i % slots].data(), rows, setting_.problem.head_row_bytes());
    metrics.bytes_received += reads_[i % slots].start(from.receive_from, source.held, source.runs, into);
    metrics.rows_received += rows;
  });
}

void WindowKeys::start(std::size_t s) {
  while (started_ < std::min(s + WindowRound::depth, reads())) start_read(started_++);
}

void WindowKeys::progress() {
  for (comm::WindowRead& read : reads_) read.progress();
}

void WindowKeys::complete(std::size_t s) {
  if (s >= reads()) return;
  start(s + 1);  // the block of step s is free
  core::timed_wait(setting_.hop(hop(s + 1)), [&] { reads_[s % slots].wait(); });
  in_hand_ = blocks_[s % slots];
}

void WindowKeys::finish() {
  reads_.clear();
  buffers_ = {};
}

}  // namespace annulus::strategies
