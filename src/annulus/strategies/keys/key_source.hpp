// Where the keys of a rank's steps come from: its own rows first, then those of other ranks, however they get here.
#pragma once

#include <memory>

#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// When messages travel.
///   overlapped  started before the kernel works on the blocks in hand, completed after it
///   blocking    between two kernel calls, even ranks sending first; nothing hidden
enum class HopMode { overlapped, blocking };

/// What a key source and a gradient sink work on: one rank's side of a forward or backward pass. Nothing is copied.
struct Setting {
  const Problem& problem;
  const pattern::Partition& partition;
  const comm::Communicator& comm;
  const Tensors& tensors;      ///< this rank's
  core::RankMetrics& metrics;  ///< hop h of it: what is received, and computed with, in that hop

  int rank() const { return comm.rank(); }
  const pattern::StoredRows& rows() const { return partition[std::size_t(comm.rank())]; }
  core::HopMetrics& hop(std::size_t h) const { return metrics.hops[std::min(h, metrics.hops.size() - 1)]; }
};

/// Keys of one rank, step after step; each of passes(problem) begins with step 0 anew. A step has a block in each lane,
/// or none in some. Use: begin(round); for every step s start(s), the work on block(s, lane) with progress() now and
/// then, complete(s); finish() behind the last round; close() when the results are made.
class KeySource {
 public:
  virtual ~KeySource() = default;

  virtual void begin(const Problem& round) = 0;
  /// Steps of the round, step 0 included.
  virtual std::size_t steps() const = 0;
  /// Blocks that a step may have.
  virtual std::size_t lanes() const { return 1; }
  /// Entries of the metrics that the round needs, and the one that step s counts in.
  virtual std::size_t hops() const { return steps(); }
  virtual std::size_t hop(std::size_t s) const { return s; }
  /// Names step s: "own rows", "hop 2 of 3".
  virtual std::string place(std::size_t s) const = 0;

  /// The block of step s in a lane, from complete(s - 1) to complete(s); nullptr where there is none. Those of step 0,
  /// of which every lane's holds other rows, stay to the end of the round.
  virtual const KeyBlock* block(std::size_t s, std::size_t lane) const = 0;

  /// The form of that block, from begin() on, whether it is here or not; holds nothing where there is none.
  virtual KeyBlock form(std::size_t s, std::size_t lane) const = 0;

  /// Asks for the blocks of step s + 1, and perhaps of later ones, before the kernel works on step s.
  virtual void start(std::size_t) {}
  /// Lets messages move. Cheap.
  virtual void progress() {}
  /// Returns when the blocks of step s + 1 are here.
  virtual void complete(std::size_t) {}
  /// Frees the buffers.
  virtual void finish() {}
  /// Collective: returns when no other rank needs this one's rows any more.
  virtual void close() {}
};

/// Makes a rank's key source; collective.
using MakeKeys = std::function<std::unique_ptr<KeySource>(const Setting&)>;
/// What a pass costs a rank.
using Predict = std::function<Prediction(const Problem&, const pattern::Partition&, int rank)>;

/// A forward pass: how keys come, and in how many blocks a rank's rows are worked on, one after another, so that their
/// running sums take little memory; more than one only where the keys are at hand all the time.
struct ForwardPass {
  MakeKeys keys;
  Predict predict;
  std::function<Index(const Problem&, Index rows)> query_blocks = [](const Problem&, Index) -> Index { return 1; };
};

/// The rank's own keys.
ForwardPass own_rows();

}  // namespace annulus::strategies
