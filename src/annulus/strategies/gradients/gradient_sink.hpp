// Adds up dK and dV, or what keys receive (enum Sums). Sums for a rank's own keys stay on this rank; sums for other
// keys go to the rank that owns these keys.
#pragma once

#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// Says how the sums of one round travel, for all ranks.
class SumRound {
 public:
  virtual ~SumRound() = default;

  /// Number of steps in which sums may move; this may be more than the number of steps that have keys.
  virtual std::size_t steps(int) const { return 1; }
  virtual Transfers transfers(int, std::size_t) const { return {}; }
  /// Bytes of buffers for sums in each step. The last step's buffers are held to the round's end. Empty: no buffers.
  virtual std::vector<Index> buffer_bytes(int) const { return {}; }
};

class GradientSink;

/// All rounds of a pass that makes sums, for all ranks.
class SumPlan {
 public:
  virtual ~SumPlan() = default;

  virtual const SumRound& round(std::size_t i) const = 0;
  /// Makes the GradientSink of one rank, which takes its sums. Collective.
  virtual std::unique_ptr<GradientSink> sink(const PassContext& context) const = 0;
  /// Bytes of this rank's MPI windows, to which other ranks add their sums.
  virtual Index window_bytes(int) const { return 0; }
  virtual Wanted wanted() const { return Wanted::all; }
  /// True if every rank makes sums only for its own rows.
  virtual bool is_own() const { return false; }
  /// Bytes of buffers that are needed only after the last round.
  virtual Index closing_bytes(int) const { return 0; }
  /// Returns how much memory is enough for this plan on every rank, if no message is larger than the given ones.
  virtual Room room(const LargestMessages&) const { return {}; }
};

/// Takes the sums of one rank, while the key source brings keys. Keys travel in one or more channels (KeyRound), for
/// example one for each direction; a step has at most one key block in each channel. For round i call begin(i, own).
/// In each step s call start(s); then, for each channel, call open(s, channel), run the kernel (and call progress()
/// now and then) and call leave(s, channel); then call complete(s). After the steps call settle(channel) for each
/// channel, then finish(). When the results are made, call close().
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// Begins the round that the key source has begun. `own` are the sums for the rank's own rows.
  virtual void begin(std::size_t round, const GradientBlock& own) = 0;

  /// Starts to send the sums that step s - 1 made, before the kernel works on step s.
  virtual void start(std::size_t) {}
  /// Returns the memory to which the kernel adds the sums for the key block of step s in a channel: a block with the
  /// rows and the layout of the key block. Empty: the step has no sums in this channel.
  virtual std::optional<GradientBlock> open(std::size_t s, std::size_t channel) = 0;
  /// Called when the kernel is done with the block of step s in a channel, or if there was no such block.
  virtual void leave(std::size_t, std::size_t) {}
  /// Keeps messages moving; takes little time.
  virtual void progress() {}
  /// Completes the messages that start(s) has started, and adds the sums that have arrived.
  virtual void complete(std::size_t) {}
  /// Waits after the last step until this rank's messages in a channel are complete. If sums travel from rank to rank
  /// in one order, the sums for the own rows have then come back. Sums in MPI windows are complete only after finish().
  virtual void settle(std::size_t) {}
  /// Frees the buffers.
  virtual void finish() {}
  /// Collective: returns when no other rank needs this rank's memory any more.
  virtual void close() {}
};

}  // namespace annulus::strategies
