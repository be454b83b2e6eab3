#include "annulus/strategies/hop_backward.hpp"

#include <algorithm>
#include <deque>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {
namespace {

using comm::Message;

std::size_t hop_count(const Lanes& lanes) {
  std::size_t count = 0;
  for (const pattern::Hops& hops : lanes) count = std::max(count, hops.size());
  return count;
}

/// All messages of a step one way. Two ranks list what they have for each other in the same order.
struct Messages {
  std::vector<Message> near;  ///< between neighbours of the hops
  std::vector<Message> home;
};

/// Walks the hops of all lanes together. Step s works on the own rows (s = 0) or those of hop s - 1, while K and V of
/// hop s and the gradients of hop s - 2 travel. So two more steps than hops: the last one only brings gradients home.
class BackwardLoop {
 public:
  BackwardLoop(const Problem& problem, const BackwardLanes& lanes, const pattern::StoredRows& rows, HopMode mode,
               const comm::Communicator& comm, const KeyBlock& own, BackwardComputation& computation,
               core::RankMetrics& metrics)
      : own_(own),
        hops_(hop_count(lanes.keys)),
        mode_(mode),
        computation_(computation),
        metrics_(metrics),
        exchange_(comm) {
    metrics.hops.resize(hops_ + 1);
    for (std::size_t l = 0; l < lanes.keys.size(); ++l) {
      keys_.emplace_back(problem, lanes.keys[l], own_);
      gradients_.emplace_back(problem, lanes.keys[l], lanes.gradients[l], rows, computation.own());
    }
  }

  void run() {
    for (std::size_t s = 0; s < hops_ + (hops_ > 0 ? 2 : 1); ++s) {
      if (mode_ == HopMode::overlapped) start(s);
      if (s <= hops_) compute(s);
      complete(s);
    }
  }

 private:
  std::string place(std::size_t s) const { return s == 0 ? "own rows" : fmt::format("hop {} of {}", s, hops_); }
  /// Where the waits of step s are counted: with the hop whose rows it brings, at the end with the last one.
  core::HopMetrics& waits(std::size_t s) { return metrics_.hops[std::min(s + 1, hops_)]; }

  void compute(std::size_t s) {
    const auto poll = [this] { exchange_.progress(); };
    core::HopMetrics& metrics = metrics_.hops[s];
    if (s == 0) return computation_.add(own_, computation_.own(), place(s), metrics, poll);
    for (std::size_t l = 0; l < keys_.size(); ++l) {
      if (!keys_[l].has(s - 1)) continue;
      computation_.add(keys_[l].in_hand(), gradients_[l].begin(s - 1), place(s), metrics, poll);
    }
  }

  Messages outgoing(std::size_t s) {
    Messages messages;
    for (std::size_t l = 0; l < keys_.size(); ++l) {
      if (keys_[l].has(s)) messages.near.push_back(keys_[l].outgoing(s));
      if (s >= 2 && gradients_[l].has(s - 2)) append(gradients_[l].outgoing(s - 2), messages);
    }
    return messages;
  }
  Messages incoming(std::size_t s) {
    Messages messages;
    for (std::size_t l = 0; l < keys_.size(); ++l) {
      if (keys_[l].has(s)) messages.near.push_back(keys_[l].incoming(s));
      if (s >= 2 && gradients_[l].has(s - 2)) append(gradients_[l].incoming(s - 2), messages);
    }
    return messages;
  }
  static void append(const GradientMessages& gradients, Messages& messages) {
    messages.near.push_back(gradients.near);
    messages.home.push_back(gradients.home);
  }

  /// Collecting rows is not waiting; starting to send is, where device memory is staged.
  void start(std::size_t s) { start(outgoing(s), incoming(s), s); }
  void start(Messages sends, Messages receives, std::size_t s) {
    sends.near.insert(sends.near.end(), sends.home.begin(), sends.home.end());
    receives.near.insert(receives.near.end(), receives.home.begin(), receives.home.end());
    core::timed_wait(waits(s), [&] { exchange_.start(sends.near, receives.near, hop_tag(s)); });
  }

  /// Ends the messages of step s.
  void complete(std::size_t s) {
    const comm::Place here(fmt::format("messages of {}", place(std::min(s + 1, hops_))));
    if (mode_ == HopMode::blocking) {
      // Even and odd ranks take turns between neighbours; home may be any rank, where turns could wait for each other
      // for ever.
      const Messages sends = outgoing(s), receives = incoming(s);
      core::timed_wait(waits(s), [&] { exchange_.run_blocking(sends.near, receives.near, hop_tag(s)); });
      start({{}, sends.home}, {{}, receives.home}, s);
    }
    core::timed_wait(waits(s), [&] { exchange_.wait(); });
    for (std::size_t l = 0; l < keys_.size(); ++l) {
      if (keys_[l].has(s)) keys_[l].take(s, metrics_.hops[s + 1]);
      if (s >= 2 && gradients_[l].has(s - 2)) gradients_[l].settle(s - 2, metrics_.hops[s - 1]);
    }
  }

  const KeyBlock own_;
  const std::size_t hops_;
  const HopMode mode_;
  BackwardComputation& computation_;
  core::RankMetrics& metrics_;
  std::deque<Lane> keys_;  // deques: lanes do not move, messages and blocks point into them
  std::deque<GradientLane> gradients_;
  comm::Exchange exchange_;  // behind the lanes: when an error unwinds, messages end before their buffers do
};

}  // namespace

Lanes ring_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::ring_hops(layout, partition, rank, 1, int(partition.size()) - 1)};
}

GradientLanes ring_gradient_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::ring_gradients(layout, partition, rank, 1, int(partition.size()) - 1)};
}

Prediction predict_backward_hops(const Problem& problem, const pattern::Partition& partition,
                                 const BackwardLanes& lanes, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  Prediction prediction;
  prediction.kept = kept_of(problem, rows);
  const std::size_t steps = hop_count(lanes.keys) + 2;
  std::vector<Index> buffers(steps);
  for (std::size_t l = 0; l < lanes.keys.size(); ++l) {
    const pattern::Hops& hops = lanes.keys[l];
    const pattern::GradientHops& gradients = lanes.gradients[l];
    const BufferBytes of_keys = buffer_bytes(problem, hops);
    const GradientBytes of_gradients = gradient_buffer_bytes(problem, hops, gradients);
    for (std::size_t s = 0; s < steps; ++s) buffers[s] += of_keys.during(s) + of_gradients.during(s);
    add_hops(problem, hops, prediction);
    add_gradient_hops(problem, gradients, prediction);
  }
  prediction.memory_bytes = backward_work(problem, rows.count(), *std::max_element(buffers.begin(), buffers.end()));
  return prediction;
}

void backward_in_hops(const Problem& problem, const pattern::Partition& partition, const BackwardLanes& lanes,
                      HopMode mode, const comm::Communicator& comm, const KeyBlock& own,
                      BackwardComputation& computation, core::RankMetrics& metrics) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  BackwardLoop(problem, lanes, rows, mode, comm, own, computation, metrics).run();
}

}  // namespace annulus::strategies
