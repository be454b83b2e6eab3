#include "annulus/strategies/onesided_sums.hpp"

namespace annulus::strategies {

std::array<Index, RemoteSums::count> RemoteSums::block_bytes(const Problem& problem, const pattern::Hops& hops) {
  return bytes_in_turn<count>(hops, [&](const pattern::Cargo& cargo) { return gradient_bytes(problem, cargo); });
}

Index RemoteSums::bytes(const Problem& problem, const pattern::Hops& hops) { return total(block_bytes(problem, hops)); }

RemoteSums::RemoteSums(const Problem& problem, const pattern::Partition& partition, const pattern::Hops& hops,
                       const comm::Window& window)
    : problem_(problem), partition_(partition) {
  const std::array<Index, count> bytes = block_bytes(problem, hops);
  for (std::size_t i = 0; i < count; ++i) {
    blocks_[i] = core::Buffer("gradient buffers", bytes[i]);
    adds_.emplace_back(window);
  }
}

GradientBlock RemoteSums::begin(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics) {
  wait(i, metrics);
  const GradientBlock zeros{blocks_[i % count].data(), pattern::head_rows(hop.receive), true};
  core::fill_zero(zeros.data, zeros.bytes(problem_));
  return zeros;
}

void RemoteSums::start(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics) {
  core::timed_wait(metrics, [&] {  // inside a node the addition itself is done here
    const WindowRuns target = window_runs(problem_, partition_[std::size_t(hop.receive_from)], hop.receive);
    const comm::RowBlock sums =
        kv_block(problem_, blocks_[i % count].data(), pattern::head_rows(hop.receive), problem_.head_row_sum_bytes());
    adds_[i % count].start(hop.receive_from, target.held, target.runs, sums, problem_.precision);
    metrics.bytes_sent += sums.bytes();
  });
}

void RemoteSums::wait(std::size_t i, core::HopMetrics& metrics) {
  core::timed_wait(metrics, [&] { adds_[i % count].wait(); });
}

void RemoteSums::finish(core::HopMetrics& metrics) {
  for (std::size_t i = 0; i < count; ++i) wait(i, metrics);
}

void RemoteSums::progress() {
  for (comm::WindowAdd& add : adds_) add.progress();
}

}  // namespace annulus::strategies
