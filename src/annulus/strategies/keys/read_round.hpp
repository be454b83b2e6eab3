// Reads K and V of rank - 1, rank - 2, ...: from other ranks' memory (window_plan.hpp) or from a store
// (stream_plan.hpp). While the kernel works on one owner's rows, the rows of the next two owners are read.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

#include "annulus/pattern/hops.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// A rank reads from rank - 1, rank - 2, ...; there is no step for an owner from which the rank reads nothing.
/// metrics.hops[d] counts what comes from rank - d.
class ReadRound : public KeyRound {
 public:
  ReadRound(const Problem& round, const pattern::Partition& partition)
      : KeyRound(round, partition),
        seen_(round.layout()),
        hops_(seen_, partition, query_rows(), pattern::From::owners, 1, int(partition.size()) - 1) {}

  std::size_t steps(int rank) const override { return reads(rank).size() + 1; }
  std::size_t hops(int rank) const override { return std::size_t(hops_.count(rank)) + 1; }
  std::size_t hop(int rank, std::size_t s) const override { return s == 0 ? 0 : std::size_t(read(rank, s)) + 1; }
  std::string scope(int rank, std::size_t s) const override;
  int owner(int rank, std::size_t s, std::size_t) const override {
    return s == 0 ? rank : hops_.receive_from(rank, read(rank, s));
  }
  KeyBlock form(int rank, std::size_t s, std::size_t channel) const override;
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  const pattern::Hops& all() const { return hops_; }
  /// The hop whose rows step s > 0 works on.
  int read(int rank, std::size_t s) const { return reads(rank)[s - 1]; }

  static constexpr std::size_t depth = 2;          ///< reads in flight while the kernel works on a block
  static constexpr std::size_t slots = depth + 1;  ///< buffers: for these reads, and for the current block
  /// Bytes of each of `count` buffers, which are used in turn: read i fills buffer i mod `count`.
  template <std::size_t count, class BytesOf>
  std::array<Index, count> bytes_in_turn(int rank, BytesOf&& bytes_of) const {
    std::array<Index, count> bytes{};
    for (std::size_t i = 0; i < reads(rank).size(); ++i) {
      bytes[i % count] = std::max(bytes[i % count], bytes_of(rows_read(rank, reads(rank)[i])));
    }
    return bytes;
  }
  /// An upper bound of the sum of the bytes that bytes_in_turn() returns, if no read brings more than `largest` rows.
  template <std::size_t count, class BytesOf>
  Index most_in_turn(Index largest, BytesOf&& bytes_of) const {
    return std::min<Index>(count, ranks() - 1) * bytes_of(largest);
  }
  std::array<Index, slots> slot_bytes(int rank) const {
    return bytes_in_turn<slots>(rank, [&](Index rows) { return bytes_read(rows); });
  }

 protected:
  /// For ranks that read queries for their own keys, from rank + 1, rank + 2, ... `seen` is the round's layout with
  /// queries and keys exchanged.
  ReadRound(const Problem& round, const pattern::Partition& partition, pattern::Layout seen)
      : KeyRound(round, partition),
        seen_(std::move(seen)),
        hops_(seen_, query_rows(), partition, pattern::From::owners, -1, int(partition.size()) - 1) {}

  /// rows_read(): number of rows that hop h reads, usually rows of one head. bytes_read(): bytes of so many such rows.
  /// reads_any(): whether hop h reads any rows.
  virtual Index rows_read(int rank, int h) const { return hops_.rows_received(rank, h); }
  virtual Index bytes_read(Index rows) const { return kv_bytes(problem(), rows); }
  virtual bool reads_any(int rank, int h) const { return hops_.rows_received(rank, h) > 0; }

 private:
  /// The numbers h of the hops that bring rows to a rank.
  const std::vector<int>& reads(int rank) const;

  const pattern::Layout seen_;
  const pattern::Hops hops_;
  mutable int rank_ = -1;  // the rank that reads_ is for
  mutable std::vector<int> reads_;
};

template <std::size_t count>
Index total(const std::array<Index, count>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Index(0));
}

/// Executes rounds of reads. The reads use the buffers in turn.
class ReadKeys : public SourceOf<ReadRound> {
 public:
  const KeyBlock* block(std::size_t s, std::size_t) const override { return s == 0 ? &own_ : &current_; }
  void start(std::size_t s) override;
  void complete(std::size_t s) override;
  void finish() override { buffers_ = {}; }

 protected:
  static constexpr std::size_t slots = ReadRound::slots;

  explicit ReadKeys(const PassContext& context) : SourceOf(context), own_(own_block(context.tensors, context.rows())) {}

  void begin_round(const ReadRound& round);
  /// Start and end a read. Read i of a round brings the block of step i + 1, and fills the buffer with number `slot`,
  /// i mod slots.
  virtual void start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                          core::HopMetrics& metrics) = 0;
  virtual void end_read(std::size_t slot) = 0;

  const KeyBlock own_;

 private:
  std::size_t reads() const { return round_->steps(context_.rank()) - 1; }
  void start_next();

  std::size_t started_ = 0;
  std::array<KeyBlock, slots> blocks_;
  KeyBlock current_;
  std::array<core::Buffer, slots> buffers_;
};

}  // namespace annulus::strategies
