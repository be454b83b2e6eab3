#include "annulus/strategies/gather_backward.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "annulus/comm/exchange.hpp"
#include "annulus/comm/gather.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/gathered_blocks.hpp"

namespace annulus::strategies {
namespace {

/// Bytes of the buffers for sums: those of step d are in block d mod 2.
struct SumBytes {
  std::array<Index, 2> blocks{};
  Index incoming = 0;
};
SumBytes sum_bytes(const Problem& problem, const pattern::Partition& partition, int rank) {
  const int ranks = int(partition.size());
  SumBytes bytes;
  for (int d = 1; d < ranks; ++d) {
    Index& block = bytes.blocks[std::size_t(d % 2)];
    block = std::max(block, key_sum_bytes(problem, partition[std::size_t(core::wrap(rank - d, ranks))].count()));
    bytes.incoming = key_sum_bytes(problem, partition[std::size_t(rank)].count());
  }
  return bytes;
}

/// A gather whose blocks are taken in a given order.
class OrderedGather {
 public:
  explicit OrderedGather(const comm::Communicator& comm) : gather_(comm) {}
  void start(const comm::RowBlock& own, const std::vector<comm::RowBlock>& blocks) { gather_.start(own, blocks); }
  void progress() { gather_.progress(); }
  void take(int owner) {
    while (arrived_.count(owner) == 0) {
      const std::optional<int> next = gather_.next();
      core::require(next.has_value(), [&] { return fmt::format("the rows of rank {} were not gathered", owner); });
      arrived_.insert(*next);
    }
  }
  void finish() { gather_.finish(); }

 private:
  comm::Gather gather_;
  std::set<int> arrived_;
};

class GatheredBackward {
 public:
  GatheredBackward(const Problem& problem, const pattern::Partition& partition, HopMode mode,
                   const comm::Communicator& comm, const Tensors& tensors, BackwardComputation& computation,
                   core::RankMetrics& metrics)
      : problem_(problem),
        mode_(mode),
        rank_(comm.rank()),
        ranks_(comm.size()),
        computation_(computation),
        metrics_(metrics),
        gathered_("gathered kv",
                  problem.kv_block_bytes(problem.shape.sequence - partition[std::size_t(comm.rank())].count())),
        keys_(gathered_blocks(problem, partition, comm.rank(), tensors, gathered_)),
        gather_(comm),
        exchange_(comm) {
    const SumBytes bytes = sum_bytes(problem, partition, rank_);
    for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes.blocks[i]);
    incoming_ = core::Buffer("gradient buffers", bytes.incoming);
  }

  void run() {
    start_gather();
    // Step d works on the rows of rank - d while the sums of step d - 1 travel.
    for (int d = 0; d <= ranks_; ++d) {
      if (d < ranks_ && d > 0) take_keys(d);
      if (mode_ == HopMode::overlapped) start_sums(d - 1);
      if (d < ranks_) compute(d);
      if (mode_ == HopMode::blocking) start_sums(d - 1);
      settle_sums(d - 1);
    }
    gather_.finish();
  }

 private:
  /// The owner of step d.
  int owner(int d) const { return core::wrap(rank_ - d, ranks_); }
  const KeyBlock& keys(int d) const { return keys_[std::size_t(owner(d))]; }
  core::HopMetrics& metrics(int d) { return metrics_.hops[std::size_t(d)]; }

  void start_gather() {
    const std::vector<comm::RowBlock> messages = gathered_messages(problem_, keys_);
    const comm::Place here("gathering K and V");
    core::timed_wait(metrics(0), [&] { gather_.start(messages[std::size_t(rank_)], messages); });
    for (int d = 1; d < ranks_; ++d) {
      metrics(d).bytes_sent += problem_.kv_block_bytes(keys(0).held);
      metrics(d).bytes_received += problem_.kv_block_bytes(keys(d).held);
      metrics(d).rows_received += keys(d).held;
      if (mode_ == HopMode::blocking) take_keys(d);
    }
  }
  void take_keys(int d) {
    if (keys(d).held == 0) return;
    core::timed_wait(metrics(d), [&] { gather_.take(owner(d)); });
  }

  GradientBlock block(int d) const { return {blocks_[std::size_t(d % 2)].data(), keys(d).held, false}; }

  void compute(int d) {
    GradientBlock into = computation_.own();
    if (d > 0) {
      into = block(d);
      core::fill_zero(into.data, into.bytes(problem_));
    }
    computation_.add(keys(d), into, d == 0 ? "own rows" : fmt::format("rows of rank {}", owner(d)), metrics(d), [this] {
      gather_.progress();
      exchange_.progress();
    });
  }

  /// Sums of step d go to rank - d, those for the own rows come from rank + d.
  void start_sums(int d) {
    if (d < 1) return;
    const Index unit = problem_.shape.kv_heads * problem_.head_row_sum_bytes();
    const comm::Message send{owner(d), kv_block(problem_, block(d).data, keys(d).held, unit)};
    const comm::Message receive{owner(-d), kv_block(problem_, incoming_.data(), keys(0).held, unit)};
    core::timed_wait(metrics(d), [&] { exchange_.start({send}, {receive}, hop_tag(std::size_t(d))); });
    metrics(d).bytes_sent += send.block.bytes();
    metrics(d).bytes_received += receive.block.bytes();
    metrics(d).rows_received += keys(0).held;
  }
  void settle_sums(int d) {
    if (d < 1) return;
    const comm::Place here(fmt::format("gradients from rank {}", owner(-d)));
    core::timed_wait(metrics(d), [&] { exchange_.wait(); });
    const kernels::RowArray own = computation_.own().head_rows(problem_);
    kernels::add_rows({{0, 1, own.held, 0}}, {incoming_.data(), own.parts, own.held, own.row_bytes}, own,
                      problem_.precision);
  }

  const Problem& problem_;
  const HopMode mode_;
  const int rank_;
  const int ranks_;
  BackwardComputation& computation_;
  core::RankMetrics& metrics_;
  core::Buffer gathered_;
  std::vector<KeyBlock> keys_;
  std::array<core::Buffer, 2> blocks_;
  core::Buffer incoming_;
  OrderedGather gather_;  // behind the buffers: when an error unwinds, messages end before their buffers do
  comm::Exchange exchange_;
};

}  // namespace

Prediction predict_gathered_backward(const Problem& problem, const pattern::Partition& partition, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const Index n = problem.shape.sequence, own = rows.count(), others = Index(partition.size()) - 1;
  const Index keys = problem.kv_block_bytes(n - own);
  const SumBytes sums = sum_bytes(problem, partition, rank);
  return {backward_memory(problem, own, keys + sums.blocks[0] + sums.blocks[1] + sums.incoming),
          problem.kv_block_bytes(own) * others + key_sum_bytes(problem, n - own),
          keys + key_sum_bytes(problem, own) * others, kept_of(problem, rows)};
}

core::RankMetrics backward_gathered(const Problem& problem, const pattern::Partition& partition, HopMode mode,
                                    const comm::Communicator& comm, Tensors& tensors, const Progress& progress) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  core::RankMetrics metrics{rows.count(), std::vector<core::HopMetrics>(partition.size())};
  BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                  kept_of(problem, rows), progress);
  GatheredBackward(problem, partition, mode, comm, tensors, computation, metrics).run();
  computation.finish(metrics.hops.back());
  return metrics;
}

}  // namespace annulus::strategies
