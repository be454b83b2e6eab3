#include "annulus/strategies/keys/window_keys.hpp"

#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

using pattern::Hops;

std::array<Index, WindowKeys::slots> WindowKeys::slot_bytes(const Problem& problem, const Hops& hops) {
  return bytes_in_turn<slots>(hops, [&](const pattern::Cargo& cargo) { return cargo_bytes(problem, cargo); });
}

Index WindowKeys::bytes(const Problem& problem, const Hops& hops) { return total(slot_bytes(problem, hops)); }

WindowKeys::WindowKeys(const Setting& setting)
    : setting_(setting),
      own_(own_block(setting.tensors, setting.rows())),
      window_(setting.comm, "kv window",
              kv_window_bytes(setting.problem, setting.rows(),
                              pattern::rotation_hops(setting.problem.layout(), setting.partition, setting.rank()))) {
  fill_window(setting.problem, setting.rows(), own_, window_);
  core::timed_wait(setting.hop(0), [&] { window_.publish(); });
}

void WindowKeys::begin(const Problem& round) {
  finish();
  hops_ = pattern::rotation_hops(round.layout(), setting_.partition, setting_.rank());
  order_ = reads_of(hops_);
  started_ = 0;
  setting_.metrics.hops.resize(std::max(setting_.metrics.hops.size(), hops()));
  for (std::size_t h = 0; h < hops_.size(); ++h) setting_.hop(h + 1).bytes_sent += cargo_bytes(round, hops_[h].send);
  const std::array<Index, slots> bytes = slot_bytes(round, hops_);
  for (std::size_t i = 0; i < slots; ++i) {
    buffers_[i] = core::Buffer("prefetch buffers", bytes[i]);
    reads_.emplace_back(window_);
  }
}

std::string WindowKeys::place(std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("read {} of {}", s, order_.size());
}

KeyBlock WindowKeys::form(std::size_t s, std::size_t) const {
  if (s == 0) return own_;
  const pattern::Cargo& cargo = read(s).receive;
  return {buffers_[(s - 1) % slots].data(), pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
}

/// Its buffer is free again when the kernel is done with read i - slots.
void WindowKeys::start_read(std::size_t i) {
  core::HopMetrics& metrics = setting_.hop(hop(i + 1));
  core::timed_wait(metrics, [&] {  // inside a node the copy itself is done here
    const pattern::Hop& from = read(i + 1);
    const WindowRuns source =
        window_runs(setting_.problem, setting_.partition[std::size_t(from.receive_from)], from.receive);
    const Index rows = pattern::head_rows(from.receive);
    const comm::RowBlock into =
        kv_block(setting_.problem, buffers_[i % slots].data(), rows, setting_.problem.head_row_bytes());
    metrics.bytes_received += reads_[i % slots].start(from.receive_from, source.held, source.runs, into);
    metrics.rows_received += rows;
  });
}

void WindowKeys::start(std::size_t s) {
  while (started_ < std::min(s + depth, order_.size())) start_read(started_++);
}

void WindowKeys::progress() {
  for (comm::WindowRead& read : reads_) read.progress();
}

void WindowKeys::complete(std::size_t s) {
  if (s >= order_.size()) return;
  start(s + 1);  // the block of step s is free
  core::timed_wait(setting_.hop(hop(s + 1)), [&] { reads_[s % slots].wait(); });
  in_hand_ = form(s + 1, 0);
}

void WindowKeys::finish() {
  reads_.clear();
  buffers_ = {};
}

namespace {

/// The rows are those of the rotation; buffers and window are not.
Prediction predict_reads(const Problem& problem, const pattern::Partition& partition, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction prediction;
  prediction.kept = kept_of(problem, rows);
  Index most = 0;
  for (const Problem& round : passes(problem)) {
    const Hops hops = pattern::rotation_hops(round.layout(), partition, rank);
    add_hops(round, hops, prediction);
    most = std::max(most, WindowKeys::bytes(round, hops));
  }
  const Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
  prediction.memory_bytes = local_memory(problem, rows.count(), most) + kv_window_bytes(problem, rows, hops);
  return prediction;
}

}  // namespace

ForwardPass read_from_windows() {
  return {[](const Setting& setting) { return std::make_unique<WindowKeys>(setting); }, predict_reads};
}

}  // namespace annulus::strategies
