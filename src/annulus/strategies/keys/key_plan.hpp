// Plans how every rank gets its keys: which rows each step works on, and what travels meanwhile. Plans consist of
// integers only, without tensors, so one process can make and print the plans of all ranks.
#pragma once

#include <memory>

#include "annulus/pattern/parts.hpp"
#include "annulus/strategies/sum_computation.hpp"

namespace annulus::strategies {

/// Rows of K and V, or sums for such rows (enum Sums), that a rank sends to another rank or receives from it.
struct Transfer {
  int rank = 0;    ///< the other rank; every_rank: all others, in a collective
  Index rows = 0;  ///< number of (row, key/value head) pairs in one batch entry
  Index bytes = 0;
};
inline constexpr int every_rank = -1;

/// What a rank sends and receives during a step; transfers without rows are left out.
struct Transfers {
  std::vector<Transfer> sent, received;

  void send(const Transfer& one) { add(sent, one); }
  void receive(const Transfer& one) { add(received, one); }

 private:
  static void add(std::vector<Transfer>& to, const Transfer& one) {
    if (one.rows > 0) to.push_back(one);
  }
};

/// Bytes of K and V, or of the sums for them, for `head_rows` (row, key/value head) pairs in each batch entry.
inline Index kv_bytes(const Problem& problem, Index head_rows) {
  return problem.kv_parts() * head_rows * problem.head_kv_bytes();
}
inline Index sum_bytes(const Problem& problem, Index head_rows) {
  return problem.sum_parts() * head_rows * problem.head_row_sum_bytes();
}

/// The largest messages of a pass, in (row, key/value head) pairs: rows of K and V, and sums.
struct LargestMessages {
  Index rows = 0;
  Index sums = 0;
};

/// An upper bound of the bytes that a plan needs on any rank. Plans compute it from the sizes of the largest messages,
/// so that the planner need not look at every rank.
struct Room {
  Index buffers = 0;  ///< buffers during the steps
  Index at_ends = 0;  ///< buffers before the first round or after the last one
  Index window = 0;   ///< MPI windows, which other ranks read or add to
};

/// One round, for all ranks. A call for one step takes a time proportional to the rows of this step. A step has at most
/// one block of keys in each channel. As in NCCL, channels are rings that run side by side: one for each direction
/// (ring_bidirectional has two), or one for each slice (gradients/ordered_sums.hpp) of each part of a rank. Problem and
/// partition are not copied.
class KeyRound {
 public:
  KeyRound(const Problem& problem, const pattern::Partition& partition)
      : problem_(problem),
        partition_(partition),
        query_rows_(problem.queries ? strategies::query_rows(problem, partition) : pattern::Partition{}),
        layout_(problem.layout()) {}
  virtual ~KeyRound() = default;
  KeyRound(const KeyRound&) = delete;
  KeyRound& operator=(const KeyRound&) = delete;

  const Problem& problem() const { return problem_; }
  const pattern::Partition& partition() const { return partition_; }
  int ranks() const { return int(partition_.size()); }
  const pattern::StoredRows& rows(int rank) const { return partition_[std::size_t(rank)]; }

  const pattern::Partition& query_rows() const { return problem_.queries ? query_rows_ : partition_; }
  const pattern::StoredRows& query_rows(int rank) const { return query_rows()[std::size_t(rank)]; }

  /// parts(): the sets of rows between which keys and sums travel. Usually these sets are the ranks' rows. Each rank
  /// has two parts if keys and sums must be in order, if only two parts give this order (pattern/parts.hpp), and if the
  /// mask is causal and all rows are queries. part(): the part of a rank to whose queries a channel brings keys.
  virtual const pattern::Partition& parts() const { return partition_; }
  virtual int part(int rank, std::size_t) const { return rank; }
  const pattern::StoredRows& queries(int rank, std::size_t channel) const {
    return (problem_.queries ? query_rows_ : parts())[std::size_t(part(rank, channel))];
  }
  /// Number of channels that each part has.
  std::size_t slices() const { return channels() * partition_.size() / parts().size(); }

  /// Number of steps of a rank, step 0 included.
  virtual std::size_t steps(int) const { return 1; }
  /// Number of channels of a rank. A step has at most one block of keys in each channel.
  virtual std::size_t channels() const { return 1; }
  /// True if step 0 computes with a channel's block. If all channels have all own rows, step 0 uses only the first.
  virtual bool computes_own(std::size_t channel) const { return channel == 0; }
  /// hops(): number of elements that the round needs in metrics.hops. hop(): index of the element that counts step s.
  virtual std::size_t hops(int rank) const { return steps(rank); }
  virtual std::size_t hop(int, std::size_t s) const { return s; }
  /// Names step s: "own rows", "hop 2 of 3".
  virtual std::string scope(int, std::size_t) const { return "own rows"; }
  /// The rank that owns the rows of step s's block in a channel; every_rank: the block has rows of all ranks.
  virtual int owner(int rank, std::size_t, std::size_t) const { return rank; }
  /// Returns the block of step s in a channel as a description without data; without rows if there is no block. The
  /// blocks of step 0 (own rows) stay available to the end of the round.
  virtual KeyBlock form(int rank, std::size_t, std::size_t) const { return own_block({}, rows(rank)); }

  /// Returns what travels while the rank works on step s.
  virtual Transfers transfers(int, std::size_t) const { return {}; }
  /// Bytes of buffers during each step. The last step's buffers are held to the round's end. Empty: no buffers.
  virtual std::vector<Index> buffer_bytes(int) const { return {}; }

 protected:
  const pattern::Layout& layout() const { return layout_; }

 private:
  const Problem& problem_;
  const pattern::Partition& partition_;
  const pattern::Partition query_rows_;  // empty if all rows are queries
  const pattern::Layout layout_;
};

class KeySource;
struct PassContext;

/// All rounds of a pass, for all ranks.
class KeyPlan {
 public:
  virtual ~KeyPlan() = default;

  virtual const KeyRound& round(std::size_t i) const = 0;
  /// Makes the KeySource of one rank, which brings its keys. Collective.
  virtual std::unique_ptr<KeySource> source(const PassContext& context) const = 0;
  /// Bytes of this rank's MPI windows, which other ranks read.
  virtual Index window_bytes(int) const { return 0; }
  /// Bytes of buffers that are needed only before the first round.
  virtual Index opening_bytes(int) const { return 0; }
  /// Returns how much memory is enough for this plan on every rank, if no message is larger than the given ones.
  virtual Room room(const LargestMessages&) const { return {}; }
  /// Returns into how many blocks a rank's query rows are divided. The rank works on one block after another, so that
  /// running softmaxes take little memory. There is more than one block only if all keys are available all the time.
  virtual QueryBlocks query_blocks(int) const { return {}; }
};

}  // namespace annulus::strategies
