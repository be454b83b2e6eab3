#include "annulus/strategies/keys/gathered_keys.hpp"

#include "annulus/comm/collectives.hpp"
#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {
namespace {

/// Rows of each rank, rank after rank; one without rows gets an empty interval at the place where its rows would be.
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

CollectiveKeys::CollectiveKeys(const Setting& setting) : setting_(setting) {}

void CollectiveKeys::begin(const Problem& problem) {
  if (block_.held > 0) return;  // gathered before the first round
  const Index n = problem.shape.sequence, own = setting_.rows().count(), row = problem.kv_row_bytes();
  all_ = core::Buffer("gathered kv", problem.kv_block_bytes(n));
  block_ = {all_.data(), n, gathered_rows(setting_.partition)};
  core::HopMetrics& hop = setting_.hop(0);
  const comm::Place here("gathering K and V");
  core::timed_wait(hop, [&] {
    comm::allgather_rows(setting_.comm, kv_block(problem, setting_.tensors.kv.data(), own, row),
                         kv_block(problem, all_.data(), n, row), intervals_of(setting_.partition));
  });
  hop.bytes_sent += problem.kv_block_bytes(own) * Index(setting_.partition.size() - 1);
  hop.bytes_received += problem.kv_block_bytes(n - own);
  hop.rows_received += n - own;
}

GatheredKeys::GatheredKeys(const Setting& setting, GatherOrder order)
    : setting_(setting), order_(order), arrived_(setting.partition.size()), gather_(setting.comm) {}

void GatheredKeys::begin(const Problem& problem) {
  if (!blocks_.empty()) return;  // gathered before the first round
  const auto self = std::size_t(setting_.rank());
  const Index own = setting_.rows().count();
  gathered_ = core::Buffer("gathered kv", problem.kv_block_bytes(problem.shape.sequence - own));
  blocks_ = gathered_blocks(problem, setting_.partition, setting_.rank(), setting_.tensors, gathered_);
  owners_ = {setting_.rank()};
  setting_.metrics.hops.resize(hops());
  const std::vector<comm::RowBlock> messages = gathered_messages(problem, blocks_);
  const comm::Place here("gathering K and V");
  core::timed_wait(setting_.hop(0), [&] { gather_.start(messages[self], messages); });
  for (int d = 1; d < ranks(); ++d) {
    const auto from = std::size_t(core::wrap(setting_.rank() - d, ranks()));
    core::HopMetrics& hop = setting_.hop(std::size_t(d));
    hop.bytes_sent += messages[self].bytes();
    hop.bytes_received += messages[from].bytes();
    hop.rows_received += blocks_[from].held;
    if (order_ == GatherOrder::all_first) take(int(from));
  }
}

std::size_t GatheredKeys::steps() const {
  if (order_ != GatherOrder::as_they_come) return setting_.partition.size();
  std::size_t steps = 1;
  for (std::size_t p = 0; p < blocks_.size(); ++p) steps += p != std::size_t(setting_.rank()) && blocks_[p].held > 0;
  return steps;
}

int GatheredKeys::owner(std::size_t s) const {
  return order_ == GatherOrder::as_they_come ? owners_[s] : core::wrap(setting_.rank() - int(s), ranks());
}

std::string GatheredKeys::place(std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("rows of rank {}", owner(s));
}

void GatheredKeys::take_any(core::HopMetrics& waits) {
  const double start = core::wall_seconds();
  const std::optional<int> next = gather_.next();
  core::require(next.has_value(), [] { return "not all rows were gathered"; });
  arrived_[std::size_t(*next)] = true;
  owners_.push_back(*next);
  waits.wait_seconds += core::wall_seconds() - start;
}

void GatheredKeys::take(int wanted) {
  const auto at = std::size_t(wanted);
  core::HopMetrics& waits = setting_.hop(std::size_t(core::wrap(setting_.rank() - wanted, ranks())));
  while (blocks_[at].held > 0 && !arrived_[at]) take_any(waits);
}

void GatheredKeys::complete(std::size_t s) {
  if (s + 1 >= steps()) return;
  if (order_ == GatherOrder::as_they_come) {
    take_any(setting_.hop(s + 1));
  } else {
    take(owner(s + 1));
  }
}

void GatheredKeys::finish() {
  core::timed_wait(setting_.hop(setting_.partition.size()), [&] { gather_.finish(); });
  blocks_.clear();
  gathered_ = {};
}

namespace {

/// `gathered`: bytes of the buffer.
Prediction predict_gathered(const Problem& problem, const pattern::Partition& partition, int rank, Index gathered) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  return {local_memory(problem, rows.count(), gathered),
          problem.kv_block_bytes(rows.count()) * Index(partition.size() - 1),
          problem.kv_block_bytes(problem.shape.sequence - rows.count()), kept_of(problem, rows)};
}

}  // namespace

ForwardPass gathered_at_once() {
  return {[](const Setting& setting) { return std::make_unique<CollectiveKeys>(setting); },
          [](const Problem& problem, const pattern::Partition& partition, int rank) {
            return predict_gathered(problem, partition, rank, problem.kv_block_bytes(problem.shape.sequence));
          }};
}

ForwardPass gathered_as_they_come() {
  return {[](const Setting& setting) { return std::make_unique<GatheredKeys>(setting, GatherOrder::as_they_come); },
          [](const Problem& problem, const pattern::Partition& partition, int rank) {
            const Index others = problem.shape.sequence - partition[std::size_t(rank)].count();
            return predict_gathered(problem, partition, rank, problem.kv_block_bytes(others));
          }};
}

}  // namespace annulus::strategies
