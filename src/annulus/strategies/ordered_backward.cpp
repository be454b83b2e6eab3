#include "annulus/strategies/ordered_backward.hpp"

#include <algorithm>
#include <deque>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/gradient_lane.hpp"

namespace annulus::strategies {
namespace {

/// One pass. Step s works on the rows of rank - s, slice after slice; behind each slice its sums leave, and those for
/// step s + 1 are asked for. Behind the last step all own sums are home.
///
/// It cannot come to a halt: what a rank waits for before step s + 1 all leaves other ranks behind their step s.
class OrderedPass {
 public:
  OrderedPass(const Problem& pass, const std::vector<OrderedSlice>& slices, OrderedKeys& keys, HopMode mode,
              const comm::Communicator& comm, BackwardComputation& computation, core::RankMetrics& metrics)
      : pass_(pass), slices_(slices), keys_(keys), mode_(mode), computation_(computation), metrics_(metrics) {
    for (const OrderedSlice& slice : slices) {
      sums_.emplace_back(pass, slice, computation.own());
      exchanges_.emplace_back(comm);
    }
  }

  void run() {
    const std::size_t steps = sums_.front().steps();
    for (std::size_t s = 0; s < steps; ++s) {
      keys_.start(s, metrics_);
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        if (s > 0) arrive(i, s - 1);
        compute(i, s);
        leave(i, s);
      }
      keys_.complete(s, metrics_);
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      arrive(i, steps - 1);
      if (pass_.has_last_part()) add(slices_[i].keys[0], computation_.own(), core::Mask::after, 0);
    }
  }

 private:
  core::HopMetrics& metrics(std::size_t s) { return metrics_.hops[std::min(s, metrics_.hops.size() - 1)]; }
  std::string place(std::size_t s) const {
    return s == 0 ? "own rows" : fmt::format("step {} of {}", s, sums_.front().steps() - 1);
  }

  void add(const KeyBlock& block, const GradientBlock& into, core::Mask part, std::size_t s) {
    computation_.add_part(block, into, part, place(s), metrics(s), [this] {
      keys_.progress();
      for (comm::Exchange& exchange : exchanges_) exchange.progress();
    });
  }
  void compute(std::size_t i, std::size_t s) {
    if (s == 0) return add(slices_[i].keys[0], computation_.own(), pass_.first_part(), s);
    // Sums of rows that this rank does not read pass by.
    if (slices_[i].keys[s].held > 0 && !sums_[i].hop(s - 1).arriving.empty())
      add(keys_.block(i, s), sums_[i].begin(s), core::Mask::all, s);
  }

  /// Sends what step s leaves behind, and asks for what the next one needs.
  void leave(std::size_t i, std::size_t s) {
    sums_[i].leave(s);
    core::HopMetrics& hop = metrics(s + 1);
    std::vector<comm::Message> sends, receives;
    core::timed_wait(hop, [&] {
      sends = sums_[i].outgoing(s);
      receives = sums_[i].incoming(s);
      exchanges_[i].start(sends, receives, hop_tag(s, i + 1));
      if (mode_ == HopMode::blocking) exchanges_[i].wait();
    });
    for (const comm::Message& message : sends) hop.bytes_sent += message.block.bytes();
    for (const comm::Message& message : receives) hop.bytes_received += message.block.bytes();
    hop.rows_received += pattern::head_rows(sums_[i].hop(s).arriving) + pattern::head_rows(sums_[i].hop(s).returned);
  }
  void arrive(std::size_t i, std::size_t s) {
    const comm::Place here(fmt::format("gradients of {}", place(s)));
    core::timed_wait(metrics(s + 1), [&] { exchanges_[i].wait(); });
    sums_[i].settle(s);
  }

  const Problem& pass_;
  const std::vector<OrderedSlice>& slices_;
  OrderedKeys& keys_;
  const HopMode mode_;
  BackwardComputation& computation_;
  core::RankMetrics& metrics_;
  std::deque<OrderedSums> sums_;
  std::deque<comm::Exchange>
      exchanges_;  // behind the sums: when an error unwinds, messages end before their buffers do
};

}  // namespace

Index ordered_slices(HopMode mode, std::size_t ranks) { return mode == HopMode::overlapped && ranks > 1 ? 2 : 1; }

KeyBlock own_slice(void* kv, const pattern::Partition& partition, int rank, Index slices, Index i) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const pattern::StoredRows slice = pattern::slice_of(partition, slices, i)[std::size_t(rank)];
  if (slice.count() == 0) return {kv, rows.count(), {}};
  const core::Interval taken = slice.intervals().front();
  return {kv, rows.count(), pattern::KeyRows::raw({{taken, taken.begin - rows.intervals().front().begin}})};
}

void backward_in_order(const Problem& pass, const std::vector<OrderedSlice>& slices, OrderedKeys& keys, HopMode mode,
                       const comm::Communicator& comm, BackwardComputation& computation, core::RankMetrics& metrics) {
  computation.begin(pass);
  OrderedPass(pass, slices, keys, mode, comm, computation, metrics).run();
}

Prediction predict_sums(const Problem& pass, const std::vector<OrderedSlice>& slices) {
  Prediction prediction;
  for (const OrderedSlice& slice : slices) {
    prediction.memory_bytes += ordered_bytes(pass, slice).total();
    add_gradient_hops(pass, slice.travel, prediction);
  }
  return prediction;
}

}  // namespace annulus::strategies
