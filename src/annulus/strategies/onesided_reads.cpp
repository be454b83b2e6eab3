#include "annulus/strategies/onesided_reads.hpp"

namespace annulus::strategies {

std::array<Index, ReadAhead::slots> ReadAhead::slot_bytes(const Problem& problem, const pattern::Hops& hops) {
  return bytes_in_turn<slots>(hops, [&](const pattern::Cargo& cargo) { return cargo_bytes(problem, cargo); });
}

Index ReadAhead::bytes(const Problem& problem, const pattern::Hops& hops) { return total(slot_bytes(problem, hops)); }

ReadAhead::ReadAhead(const Problem& problem, const pattern::Partition& partition, const pattern::Hops& hops,
                     const comm::Window& window, core::RankMetrics& metrics)
    : problem_(problem), partition_(partition), hops_(hops), order_(reads_of(hops)), metrics_(metrics) {
  const std::array<Index, slots> bytes = slot_bytes(problem, hops);
  for (std::size_t i = 0; i < slots; ++i) {
    buffers_[i] = core::Buffer("prefetch buffers", bytes[i]);
    reads_.emplace_back(window);
  }
}

void ReadAhead::start(std::size_t i) {
  core::timed_wait(metrics(i), [&] {  // inside a node the copy itself is done here
    const pattern::Cargo& cargo = hop(i).receive;
    const WindowRuns source = window_runs(problem_, partition_[std::size_t(hop(i).receive_from)], cargo);
    const Index rows = pattern::head_rows(cargo);
    metrics(i).bytes_received +=
        reads_[i % slots].start(hop(i).receive_from, source.held, source.runs,
                                kv_block(problem_, buffers_[i % slots].data(), rows, problem_.head_row_bytes()));
    metrics(i).rows_received += rows;
  });
}

KeyBlock ReadAhead::take(std::size_t i) {
  core::timed_wait(metrics(i), [&] { reads_[i % slots].wait(); });
  const pattern::Cargo& cargo = hop(i).receive;
  return {buffers_[i % slots].data(), pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
}

void ReadAhead::walk(const KeyBlock& own, const Work& work) {
  std::size_t started = 0;
  for (std::size_t step = 0; step <= order_.size(); ++step) {
    while (started < std::min(step + depth, order_.size())) start(started++);
    if (step == 0) {
      work(step, own, "own rows", metrics_.hops[0]);
    } else {
      const KeyBlock block = take(step - 1);
      work(step, block, fmt::format("read {} of {}", step, order_.size()), metrics(step - 1));
    }
  }
}

void ReadAhead::progress() {
  for (comm::WindowRead& read : reads_) read.progress();
}

}  // namespace annulus::strategies
