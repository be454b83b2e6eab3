#include "annulus/strategies/hop_loop.hpp"

#include <algorithm>
#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {
namespace {

using pattern::Hop;

/// Bytes of K and V of `rows` rows, all batch entries.
Index kv_bytes(const Problem& problem, Index rows) { return 2 * problem.shape.batch * rows * problem.kv_row_bytes(); }

/// Rows the two receive buffers must hold: hop h lands in buffer h mod 2.
std::array<Index, 2> buffer_rows(const std::vector<Hop>& hops) {
  std::array<Index, 2> rows{};
  for (std::size_t h = 0; h < hops.size(); ++h) rows[h % 2] = std::max(rows[h % 2], hops[h].receive.size());
  return rows;
}

/// Walks the hops; owns the receive buffers.
class HopLoop {
 public:
  HopLoop(const Problem& problem, const pattern::StoredRows& own, const std::vector<Hop>& hops, HopMode mode,
          const comm::Communicator& comm, Tensors& tensors)
      : problem_(problem), hops_(hops), mode_(mode), exchange_(comm) {
    const std::array<Index, 2> rows = buffer_rows(hops);
    for (std::size_t i = 0; i < 2; ++i) buffers_[i] = core::Buffer("hop buffers", kv_bytes(problem, rows[i]));
    own_ = {tensors.kv.data(), own.count(), own};
    in_hand_ = own_;
  }

  void run(Computation& computation, core::RankMetrics& metrics) {
    metrics.hops.resize(hops_.size() + 1);
    for (std::size_t h = 0; h <= hops_.size(); ++h) {
      const bool more = h < hops_.size();
      if (more && mode_ == HopMode::overlapped) exchange_.start(outgoing(h), incoming(h), int(h % 1024));
      const std::string place = h == 0 ? "own rows" : fmt::format("hop {} of {}", h, hops_.size());
      computation.add(in_hand_, place, metrics.hops[h], [this] { exchange_.progress(); });
      if (more) complete(h, metrics.hops[h + 1]);
    }
  }

 private:
  comm::Message outgoing(std::size_t h) const {
    const Hop& hop = hops_[h];
    return {hop.send_to, select(hop.send_own ? own_ : in_hand_, hop.send)};
  }
  comm::Message incoming(std::size_t h) const {
    return {hops_[h].receive_from, kv_block(problem_, buffers_[h % 2].data(), hops_[h].receive.size())};
  }

  /// The block's rows `rows` (global), as a message.
  comm::RowBlock select(const KeyBlock& from, core::Interval rows) const {
    comm::RowBlock block = kv_block(problem_, from.data, from.held);
    const Index first = rows.empty() ? 0 : rows.begin - from.rows.intervals().front().begin;
    block.rows = {first, first + rows.size()};
    return block;
  }

  /// Ends hop h: its rows become the block in hand.
  void complete(std::size_t h, core::HopMetrics& metrics) {
    const double start = core::wall_seconds();
    if (mode_ == HopMode::overlapped) {
      exchange_.wait();
    } else {
      exchange_.run_blocking(outgoing(h), incoming(h), int(h % 1024));
    }
    metrics.wait_seconds = core::wall_seconds() - start;
    metrics.bytes_sent = kv_bytes(problem_, hops_[h].send.size());
    metrics.bytes_received = kv_bytes(problem_, hops_[h].receive.size());
    metrics.rows_received = hops_[h].receive.size();
    in_hand_ = {buffers_[h % 2].data(), hops_[h].receive.size(), pattern::StoredRows({hops_[h].receive})};
  }

  const Problem& problem_;
  const std::vector<Hop>& hops_;
  HopMode mode_;
  comm::Exchange exchange_;
  std::array<core::Buffer, 2> buffers_;
  KeyBlock own_;
  KeyBlock in_hand_;
};

}  // namespace

Prediction predict_hops(const Problem& problem, const pattern::Partition& partition, const std::vector<Hop>& hops,
                        int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const std::array<Index, 2> buffers = buffer_rows(hops);
  Prediction prediction;
  prediction.memory_bytes = local_memory(problem, rows.count(), kv_bytes(problem, buffers[0] + buffers[1]));
  prediction.kept = kept_between(problem, rows, rows);
  for (const Hop& hop : hops) {
    prediction.bytes_sent += kv_bytes(problem, hop.send.size());
    prediction.bytes_received += kv_bytes(problem, hop.receive.size());
    prediction.kept += kept_between(problem, rows, pattern::StoredRows({hop.receive}));
  }
  return prediction;
}

core::RankMetrics forward_in_hops(const Problem& problem, const pattern::Partition& partition,
                                  const std::vector<Hop>& hops, HopMode mode, const comm::Communicator& comm,
                                  Tensors& tensors, const Progress& progress) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  core::RankMetrics metrics{rows.count(), {}};
  Computation computation(problem, rows, tensors, predict_hops(problem, partition, hops, comm.rank()).kept, progress);
  HopLoop(problem, rows, hops, mode, comm, tensors).run(computation, metrics);
  computation.finish(metrics.hops.back());
  return metrics;
}

}  // namespace annulus::strategies
