#include "annulus/strategies/gradients/window_sums.hpp"

#include "annulus/strategies/gradients/gradient_lane.hpp"
#include "annulus/strategies/keys/hop_lane.hpp"

namespace annulus::strategies {

std::array<Index, WindowSums::count> WindowSums::block_bytes(const Problem& problem, const pattern::Hops& hops) {
  return bytes_in_turn<count>(hops, [&](const pattern::Cargo& cargo) { return gradient_bytes(problem, cargo); });
}

Index WindowSums::bytes(const Problem& problem, const pattern::Hops& hops) { return total(block_bytes(problem, hops)); }

WindowSums::WindowSums(const Setting& setting, const WindowKeys& keys)
    : setting_(setting),
      keys_(keys),
      window_(setting.comm, "gradient window",
              sum_window_bytes(setting.problem, setting.rows(),
                               pattern::rotation_hops(setting.problem.layout(), setting.partition, setting.rank()))) {
  window_.clear();
  core::timed_wait(setting.hop(0), [&] { window_.publish(); });
}

void WindowSums::begin(const Problem& round, const GradientBlock& own) {
  own_ = own;
  adds_.clear();
  const std::array<Index, count> bytes = block_bytes(round, keys_.all());
  for (std::size_t i = 0; i < count; ++i) {
    blocks_[i] = core::Buffer("gradient buffers", bytes[i]);
    adds_.emplace_back(window_);
  }
}

std::optional<GradientBlock> WindowSums::open(std::size_t s, std::size_t) {
  if (s == 0) return own_;
  wait(slot(s));
  const GradientBlock zeros{blocks_[slot(s)].data(), pattern::head_rows(keys_.read(s).receive), true};
  core::fill_zero(zeros.data, zeros.bytes(setting_.problem));
  return zeros;
}

void WindowSums::leave(std::size_t s, std::size_t) {
  if (s == 0) return;
  const Problem& problem = setting_.problem;
  const pattern::Hop& read = keys_.read(s);
  core::HopMetrics& metrics = setting_.hop(keys_.hop(s));
  core::timed_wait(metrics, [&] {  // inside a node the addition itself is done here
    const WindowRuns target = window_runs(problem, setting_.partition[std::size_t(read.receive_from)], read.receive);
    const comm::RowBlock sums =
        kv_block(problem, blocks_[slot(s)].data(), pattern::head_rows(read.receive), problem.head_row_sum_bytes());
    adds_[slot(s)].start(read.receive_from, target.held, target.runs, sums, problem.precision);
    metrics.bytes_sent += sums.bytes();
  });
}

void WindowSums::wait(std::size_t i) {
  core::timed_wait(setting_.hop(keys_.hops()), [&] { adds_[i].wait(); });
}

void WindowSums::progress() {
  for (comm::WindowAdd& add : adds_) add.progress();
}

void WindowSums::settle(std::size_t) {
  for (std::size_t i = 0; i < count; ++i) wait(i);
}

void WindowSums::finish() {
  adds_.clear();
  blocks_ = {};
  core::timed_wait(setting_.hop(keys_.hops()), [&] { window_.collect(); });
  add_window(setting_.problem, setting_.rows(), window_, own_);
  const pattern::Hops& hops = keys_.all();
  for (std::size_t h = 0; h < hops.size(); ++h) {  // what the others did here
    core::HopMetrics& hop = setting_.hop(h + 1);
    hop.bytes_received += gradient_bytes(setting_.problem, hops[h].send);
    hop.rows_received += pattern::head_rows(hops[h].send);
  }
}

BackwardPass windows_and_sums() {
  return {read_from_windows().keys,
          [](const Setting& setting, const KeySource& keys) {
            return std::make_unique<WindowSums>(setting, dynamic_cast<const WindowKeys&>(keys));
          },
          [](const Problem& problem, const pattern::Partition& partition, int rank) {
            const pattern::StoredRows& rows = partition[std::size_t(rank)];
            const pattern::Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
            Prediction prediction;  // of the rows of the rotation
            prediction.kept = kept_of(problem, rows);
            add_hops(problem, hops, prediction);
            add_gradient_hops(problem, pattern::direct_gradients(hops, rank, int(partition.size())), prediction);
            const Index sums = sum_window_bytes(problem, rows, hops);
            const Index buffers = std::max(WindowKeys::bytes(problem, hops) + WindowSums::bytes(problem, hops),
                                           sums / (2 * problem.shape.batch));  // at the end, a part of the window
            prediction.memory_bytes =
                backward_work(problem, rows.count(), buffers) + kv_window_bytes(problem, rows, hops) + sums;
            return prediction;
          }};
}

}  // namespace annulus::strategies
