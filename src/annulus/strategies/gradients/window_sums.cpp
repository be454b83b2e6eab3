#include "annulus/strategies/gradients/window_sums.hpp"

namespace annulus::strategies {
namespace {

/// False in a pass that makes lists of top keys alone: no rank then needs the sums that the kernel makes as well.
bool sums_travel(const Problem& problem) { return problem.sums == Sums::gradients || problem.statistics.received; }

}  // namespace

/// Sums of step s are sent after step s. The sums that other ranks add to this rank's window count as received in this
/// rank's last step.
Transfers WindowSumRound::transfers(int rank, std::size_t s) const {
  const pattern::Hops& hops = keys_.all();
  Transfers all;
  if (!sums_travel(keys_.problem())) return all;
  if (s > 0) {
    const int h = keys_.read(rank, s);
    const Index rows = hops.rows_received(rank, h);
    all.send({hops.receive_from(rank, h), rows, sum_bytes(keys_.problem(), rows)});
  }
  for (int h = 0; s + 1 == steps(rank) && h < hops.count(rank); ++h) {
    const Index rows = hops.rows_sent(rank, h);
    all.receive({hops.send_to(rank, h), rows, sum_bytes(keys_.problem(), rows)});
  }
  return all;
}

std::array<Index, WindowSumRound::count> WindowSumRound::block_bytes(int rank) const {
  return keys_.bytes_in_turn<count>(rank, [&](Index rows) { return sum_bytes(keys_.problem(), rows); });
}

Index WindowSumPlan::window_bytes(int rank) const {
  const KeyRound& keys = keys_.round(0);
  if (!sums_travel(keys.problem()) || !keys_.is_read(rank)) return 0;
  return key_sum_bytes(keys.problem(), keys.rows(rank).count());
}

Room WindowSumPlan::room(const LargestMessages& largest) const {
  const WindowRound& keys = keys_.round(0);
  const bool has_window = keys.ranks() > 1 && sums_travel(keys.problem());
  const Index window = has_window ? key_sum_bytes(keys.problem(), most_rows(keys.partition())) : 0;
  const auto bytes_of = [&](Index rows) { return sum_bytes(keys.problem(), rows); };
  return {keys.most_in_turn<WindowSumRound::count>(largest.rows, bytes_of), part_of(window), window};
}

std::unique_ptr<GradientSink> WindowSumPlan::sink(const PassContext& context) const {
  return std::make_unique<WindowSums>(context, *this);
}

WindowSums::WindowSums(const PassContext& context, const WindowSumPlan& plan)
    : context_(context), plan_(plan), window_(context.comm(), "gradient window", plan.window_bytes(context.rank())) {
  window_.clear();
  core::timed_wait(context.hop(0), "publish", [&] { window_.publish(); });
}

void WindowSums::begin(std::size_t round, const GradientBlock& own) {
  own_ = own;
  keys_ = &plan_.round(round).keys();
  adds_.clear();
  const std::array<Index, count> bytes = plan_.round(round).block_bytes(context_.rank());
  for (std::size_t i = 0; i < count; ++i) {
    blocks_[i] = core::Buffer("gradient buffers", bytes[i]);
    adds_.emplace_back(window_);
  }
}

std::optional<GradientBlock> WindowSums::open(std::size_t s, std::size_t) {
  if (s == 0) return own_;
  wait(slot(s));
  const Index rows = keys_->all().rows_received(context_.rank(), keys_->read(context_.rank(), s));
  const GradientBlock zeros{blocks_[slot(s)].data(), rows, true};
  core::fill_zero(zeros.data, zeros.bytes(context_.problem));
  return zeros;
}

void WindowSums::leave(std::size_t s, std::size_t) {
  const Problem& problem = context_.problem;
  if (s == 0 || !sums_travel(problem)) return;
  const pattern::Hop read = keys_->all().hop(context_.rank(), keys_->read(context_.rank(), s));
  core::HopMetrics& metrics = context_.hop(keys_->hop(context_.rank(), s));
  core::timed_wait(metrics, "add to window", [&] {  // inside a node this rank does the addition itself
    const WindowRuns target = window_runs(problem, context_.partition[std::size_t(read.receive_from)], read.receive);
    const comm::RowBlock sums =
        sum_block(problem, blocks_[slot(s)].data(), pattern::head_rows(read.receive), problem.head_row_sum_bytes());
    adds_[slot(s)].start(read.receive_from, target.held, target.runs, sums, problem.sum_precision());
    metrics.bytes_sent += sums.bytes();
  });
}

void WindowSums::wait(std::size_t i) {
  core::timed_wait(waits(), [&] { adds_[i].wait(); });
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
  if (!sums_travel(context_.problem)) return;
  // The window is added once. There are several rounds only for a fixed order, which sums in a window do not have.
  core::timed_wait(waits(), "collect", [&] { window_.collect(); });
  add_window(context_.problem, context_.rows(), window_, own_);
  const pattern::Hops& hops = keys_->all();
  for (int h = 0; h < hops.count(context_.rank()); ++h) {  // counts what other ranks added to this window
    const Index rows = hops.rows_sent(context_.rank(), h);
    core::HopMetrics& hop = context_.hop(std::size_t(h) + 1);
    hop.bytes_received += sum_bytes(context_.problem, rows);
    hop.rows_received += rows;
  }
}

MakePlans windows_and_sums() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    auto keys = std::make_unique<WindowPlan>(rounds, partition);
    auto sums = std::make_unique<WindowSumPlan>(*keys, rounds.size());
    return Plans{std::move(keys), std::move(sums)};
  };
}

}  // namespace annulus::strategies
