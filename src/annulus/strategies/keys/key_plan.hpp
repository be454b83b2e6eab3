// How the keys of every rank come, as integers: which step works on which rows, and what travels meanwhile.
#pragma once

#include <memory>

#include "annulus/pattern/parts.hpp"
#include "annulus/strategies/sum_computation.hpp"

namespace annulus::strategies {

/// Rows of K and V, or sums of their gradients, that go to a rank or come from it.
struct Transfer {
  int rank = 0;    ///< every_rank: in one collective
  Index rows = 0;  ///< (row, key/value head) pairs of one batch entry
  Index bytes = 0;
};
inline constexpr int every_rank = -1;

/// What a rank sends and receives during a step; what has no rows is left out.
struct Transfers {
  std::vector<Transfer> sent, received;

  void send(const Transfer& one) { add(sent, one); }
  void receive(const Transfer& one) { add(received, one); }

 private:
  static void add(std::vector<Transfer>& to, const Transfer& one) {
    if (one.rows > 0) to.push_back(one);
  }
};

/// Bytes of K and V, and of the sums of their gradients, of so many (row, head) pairs, all batch entries.
inline Index kv_bytes(const Problem& problem, Index head_rows) {
  return problem.kv_parts() * head_rows * problem.head_kv_bytes();
}
inline Index sum_bytes(const Problem& problem, Index head_rows) {
  return problem.sum_parts() * head_rows * problem.head_row_sum_bytes();
}

/// The largest messages of a pass, in (row, key/value head) pairs: with rows of K and V, and with sums.
struct LargestMessages {
  Index rows = 0;
  Index sums = 0;
};

/// Bytes of memory that a plan takes of a rank, at most. Plans derive them from the largest messages in the same way as
/// from the messages of one rank, so that the planner can tell them without a look at every rank.
struct Room {
  Index buffers = 0;  ///< during the steps
  Index at_ends = 0;  ///< of buffers before the first round and after the last
  Index window = 0;   ///< that other ranks read or add to
};

/// One of the rounds, for all ranks; what a step is costs as much as the rows that it touches. A step has a block of
/// keys in each channel, or none in some: channels are rings side by side (the word is NCCL's), one for each direction
/// (ring_bidirectional has two), or one for each slice (gradients/ordered_sums.hpp) of each of a rank's parts. Problem
/// and partition are not copied.
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

  /// Rows of every rank's queries.
  const pattern::Partition& query_rows() const { return problem_.queries ? query_rows_ : partition_; }
  const pattern::StoredRows& query_rows(int rank) const { return query_rows()[std::size_t(rank)]; }

  /// The partition's parts (pattern/parts.hpp) where sums go from part to part in order, and the one for whose queries
  /// a rank's channel brings keys: most often the rank's rows. Where not all rows are queries, ranks are no parts.
  virtual const pattern::Partition& parts() const { return partition_; }
  virtual int part(int rank, std::size_t) const { return rank; }
  const pattern::StoredRows& queries(int rank, std::size_t channel) const {
    return (problem_.queries ? query_rows_ : parts())[std::size_t(part(rank, channel))];
  }
  /// Channels of each part.
  std::size_t slices() const { return channels() * partition_.size() / parts().size(); }

  /// Steps of a rank, step 0 included.
  virtual std::size_t steps(int) const { return 1; }
  /// Blocks that a step may have.
  virtual std::size_t channels() const { return 1; }
  /// Channels whose step 0 has the same own rows leave the work on them to the first.
  virtual bool computes_own(std::size_t channel) const { return channel == 0; }
  /// Entries of the metrics that the round needs, and the one that step s counts in.
  virtual std::size_t hops(int rank) const { return steps(rank); }
  virtual std::size_t hop(int, std::size_t s) const { return s; }
  /// Names step s: "own rows", "hop 2 of 3".
  virtual std::string scope(int, std::size_t) const { return "own rows"; }
  /// Whose rows the block of step s in a channel holds, every_rank: all; and in which form, without data, holding
  /// nothing where there is none. Those of step 0, of which every channel's holds other rows, stay to the end of the
  /// round.
  virtual int owner(int rank, std::size_t, std::size_t) const { return rank; }
  virtual KeyBlock form(int rank, std::size_t, std::size_t) const { return own_block({}, rows(rank)); }

  /// What travels while the rank works on step s.
  virtual Transfers transfers(int, std::size_t) const { return {}; }
  /// Bytes of buffers during each step; the last is held to the end of the round. Nothing: none at all.
  virtual std::vector<Index> buffer_bytes(int) const { return {}; }

 protected:
  const pattern::Layout& layout() const { return layout_; }

 private:
  const Problem& problem_;
  const pattern::Partition& partition_;
  const pattern::Partition query_rows_;  // empty where all rows are queries
  const pattern::Layout layout_;
};

class KeySource;
struct PassContext;

/// All rounds of a pass, for all ranks.
class KeyPlan {
 public:
  virtual ~KeyPlan() = default;

  virtual const KeyRound& round(std::size_t i) const = 0;
  /// Brings the keys of one rank; collective.
  virtual std::unique_ptr<KeySource> source(const PassContext& context) const = 0;
  /// Bytes of a rank's memory that other ranks read.
  virtual Index window_bytes(int) const { return 0; }
  /// Bytes of buffers before the first round.
  virtual Index opening_bytes(int) const { return 0; }
  /// What every rank has enough of.
  virtual Room room(const LargestMessages&) const { return {}; }
  /// Blocks in which a rank's rows are worked on, one after another, so that their running sums take little memory;
  /// more than one only where the keys are at hand all the time.
  virtual QueryBlocks query_blocks(int) const { return {}; }
};

}  // namespace annulus::strategies
