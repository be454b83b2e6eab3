#include "annulus/strategies/keys/gathered_keys.hpp"

#include "annulus/comm/collectives.hpp"
#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {
namespace {

/// Returns the stored rows of each rank, one rank after another; a rank without rows gets an empty interval.
std::vector<core::Interval> intervals_of(const pattern::Partition& partition) {
  std::vector<core::Interval> intervals;
  Index next = 0;
  for (const pattern::StoredRows& rows : partition) {
    intervals.push_back({next, next + rows.count()});
    next += rows.count();
  }
  return intervals;
}

}  // namespace

void CollectiveKeys::begin(std::size_t round) {
  round_ = &plan_.round(round);
  if (block_.held > 0) return;  // the first round has gathered already
  const Problem& problem = context_.problem;
  const Index n = problem.shape.sequence, own = context_.rows().count(), row = problem.kv_row_bytes();
  all_ = core::Buffer("gathered kv", problem.kv_block_bytes(n));
  block_ = round_->form(context_.rank(), 0, 0);
  block_.data = all_.data();
  core::HopMetrics& hop = context_.hop(0);
  const comm::Scope doing("gathering K and V");
  core::timed_wait(hop, "gather", [&] {
    comm::allgather_rows(context_.comm(), kv_block(problem, context_.tensors.kv.data(), own, row),
                         kv_block(problem, all_.data(), n, row), intervals_of(context_.partition));
  });
  hop.bytes_sent += problem.kv_block_bytes(own) * Index(context_.partition.size() - 1);
  hop.bytes_received += problem.kv_block_bytes(n - own);
  hop.rows_received += n - own;
}

void GatheredKeys::begin(std::size_t round) {
  round_ = &plan_.round(round);
  if (blocks_.empty()) start_gathering();  // in the first round
}

void GatheredKeys::start_gathering() {
  const Problem& problem = context_.problem;
  const auto self = std::size_t(context_.rank());
  gathered_ = core::Buffer("gathered kv", problem.kv_block_bytes(problem.shape.sequence - context_.rows().count()));
  Index offset = 0;
  std::vector<comm::RowBlock> messages;
  for (std::size_t p = 0; p < context_.partition.size(); ++p) {
    KeyBlock& block = blocks_.emplace_back(own_block(context_.tensors, context_.partition[p]));
    if (p != self) {
      block.data = gathered_.at(offset);
      offset += problem.kv_block_bytes(block.held);
    }
    messages.push_back(kv_block(problem, block.data, block.held, problem.kv_row_bytes()));
  }
  owners_ = {context_.rank()};
  context_.metrics.hops.resize(context_.partition.size());
  const comm::Scope doing("gathering K and V");
  core::timed_wait(context_.hop(0), "post", [&] { gather_.start(messages[self], messages); });
  for (int d = 1; d < ranks(); ++d) {
    const auto from = std::size_t(core::wrap(context_.rank() - d, ranks()));
    core::HopMetrics& hop = context_.hop(std::size_t(d));
    hop.bytes_sent += messages[self].bytes();
    hop.bytes_received += messages[from].bytes();
    hop.rows_received += blocks_[from].held;
    if (round_->order() == GatherOrder::all_first) take(int(from));
  }
}

std::string GatheredKeys::scope(std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("rows of rank {}", owner(s));
}

void GatheredKeys::take_any(core::HopMetrics& waits) {
  std::optional<int> next;
  core::timed_wait(waits, "gather", [&] { next = gather_.next(); });
  core::require(next.has_value(), [] { return "not all rows were gathered"; });
  arrived_[std::size_t(*next)] = true;
  owners_.push_back(*next);
}

void GatheredKeys::take(int wanted) {
  const auto at = std::size_t(wanted);
  core::HopMetrics& waits = context_.hop(std::size_t(core::wrap(context_.rank() - wanted, ranks())));
  while (blocks_[at].held > 0 && !arrived_[at]) take_any(waits);
}

void GatheredKeys::complete(std::size_t s) {
  if (s + 1 >= round_->steps(context_.rank())) return;
  if (is_as_they_come()) {
    take_any(context_.hop(s + 1));
  } else {
    take(owner(s + 1));
  }
}

void GatheredKeys::finish() {
  core::timed_wait(context_.hop(context_.partition.size()), "gather", [&] { gather_.finish(); });
  blocks_.clear();
  gathered_ = {};
}

}  // namespace annulus::strategies
