// Brings a rank the rows of K and V that its steps work on: first its own rows, then rows of other ranks. Rows of other
// ranks come in messages, from MPI windows, or from a store.
#pragma once

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/keys/key_plan.hpp"

namespace annulus::strategies {

/// Selects when messages travel.
///   overlapped  messages start before the kernel works on the current blocks, and are completed after this work
///   blocking    messages travel between two kernel calls, so computing hides none of their time; in exchanges between
///               neighbours the ranks 0, 2, 4, ... usually send first
enum class HopMode { overlapped, blocking };

/// Says which element of a partition is computed, and where the rows of the other elements are: on the ranks of a
/// communicator, where rank p computes element p; or in a store, so that one process can compute any element alone.
class Location {
 public:
  Location(const comm::Communicator& comm) : rank_(comm.rank()), comm_(&comm) {}
  Location(int rank, Index entry, core::RowSource& rows) : rank_(rank), entry_(entry), rows_(&rows) {}

  /// Index of the element that is computed.
  int rank() const { return rank_; }
  bool has_ranks() const { return comm_ != nullptr; }
  const comm::Communicator& comm() const { return *comm_; }
  core::RowSource& stored_rows() const { return *rows_; }
  /// Batch entry 0 of the problem is this batch entry of the store.
  Index entry() const { return entry_; }

 private:
  int rank_ = 0;
  const comm::Communicator* comm_ = nullptr;
  Index entry_ = 0;
  core::RowSource* rows_ = nullptr;
};

/// What a KeySource and a GradientSink need to know of a pass on one rank. Only the location is copied. Usually
/// metrics.hops[0] counts the work on own rows, and metrics.hops[d] counts the transfer of the rows whose owner is d
/// ranks away in the ring (hop d - 1 brings these rows) and the work on them.
struct PassContext {
  const Problem& problem;
  const pattern::Partition& partition;
  const Location location;
  const Tensors& tensors;  ///< this rank's tensors
  core::RankMetrics& metrics;

  int rank() const { return location.rank(); }
  const comm::Communicator& comm() const { return location.comm(); }
  const pattern::StoredRows& rows() const { return partition[std::size_t(rank())]; }  ///< this rank's key rows
  core::HopMetrics& hop(std::size_t h) const { return metrics.hops[std::min(h, metrics.hops.size() - 1)]; }
};

/// Executes a key plan for one rank, step after step. Call begin(i) for round i, whose steps start at 0 again. For
/// every step s call start(s), work on block(s, channel) and call progress() now and then, then call complete(s). Call
/// finish() after the last round, and close() when the results are made.
class KeySource {
 public:
  virtual ~KeySource() = default;

  virtual void begin(std::size_t round) = 0;
  // The index of step s in metrics.hops, and its name. If blocks are used in the order of arrival, call these functions
  // only after complete(s - 1), which finds out which block step s has.
  virtual std::size_t hop(std::size_t s) const = 0;
  virtual std::string scope(std::size_t s) const = 0;

  /// Returns the block of step s in a channel, or nullptr if this step has no block there. The block is valid from
  /// complete(s - 1) to complete(s); the block of step 0 is valid to the end of the round.
  virtual const KeyBlock* block(std::size_t s, std::size_t channel) const = 0;

  /// The queries that the kernel computes with this block.
  virtual QueryBlock queries(std::size_t s, std::size_t channel) const = 0;

  /// Starts to receive the blocks of step s + 1, and perhaps of later steps, before the kernel works on step s.
  virtual void start(std::size_t) {}
  /// Keeps messages moving; takes little time.
  virtual void progress() {}
  /// Returns when the blocks of step s + 1 have arrived.
  virtual void complete(std::size_t) {}
  /// Frees the buffers.
  virtual void finish() {}
  /// Collective: returns when no other rank needs this rank's rows any more.
  virtual void close() {}
};

/// The base class of all sources. By default steps come in a fixed order, and queries are the rank's own.
template <class Round>
class SourceOf : public KeySource {
 public:
  std::size_t hop(std::size_t s) const override { return round_->hop(context_.rank(), s); }
  std::string scope(std::size_t s) const override { return round_->scope(context_.rank(), s); }
  QueryBlock queries(std::size_t, std::size_t channel) const override {
    const int rank = context_.rank();
    return {round_->queries(rank, channel), round_->query_rows(rank), context_.tensors};
  }

 protected:
  explicit SourceOf(const PassContext& context) : context_(context) {}

  const PassContext context_;
  const Round* round_ = nullptr;
};

}  // namespace annulus::strategies
