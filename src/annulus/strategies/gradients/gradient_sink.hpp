// Where the sums of dK and dV for the rows of a rank's steps go: into the own ones, or by whatever way to their owner.
#pragma once

#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// What travels in one of the rounds, for all ranks, beside the keys.
class SumRound {
 public:
  virtual ~SumRound() = default;

  /// Steps in which sums move, perhaps more than there are keys.
  virtual std::size_t steps(int) const { return 1; }
  virtual Transfers transfers(int, std::size_t) const { return {}; }
  /// As those of KeyRound.
  virtual std::vector<Index> buffer_bytes(int) const { return {}; }
};

class GradientSink;

/// All rounds of a backward pass, for all ranks.
class SumPlan {
 public:
  virtual ~SumPlan() = default;

  virtual const SumRound& round(std::size_t i) const = 0;
  /// Takes the sums of one rank; collective.
  virtual std::unique_ptr<GradientSink> sink(const PassContext& context) const = 0;
  /// Bytes of a rank's memory to which other ranks add.
  virtual Index window_bytes(int) const { return 0; }
  virtual Wanted wanted() const { return Wanted::all; }
  /// Whether no rank adds to another one's sums.
  virtual bool is_own() const { return false; }
  /// Bytes of buffers after the last round.
  virtual Index closing_bytes(int) const { return 0; }
  /// As that of KeyPlan.
  virtual Room room(const LargestMessages&) const { return {}; }
};

/// Sums of one rank. Use in step with the key source: begin(i, own) for round i; for every step s start(s), and for
/// each channel open(s, channel), the work on its block, leave(s, channel), with progress() now and then; complete(s).
/// After the last step settle(channel) for each; finish() after each round; close() when the results are made.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// A round that the key source has begun; `own` are the sums for the rank's own rows.
  virtual void begin(std::size_t round, const GradientBlock& own) = 0;

  /// Sends what step s - 1 left, before the kernel works on step s.
  virtual void start(std::size_t) {}
  /// Where to add up what the block of step s in a channel gives; has the form of that block. Nothing: it gives
  /// nothing.
  virtual std::optional<GradientBlock> open(std::size_t s, std::size_t channel) = 0;
  /// The kernel is done with the block, if there was one.
  virtual void leave(std::size_t, std::size_t) {}
  /// Lets messages move. Cheap.
  virtual void progress() {}
  virtual void complete(std::size_t) {}
  /// Returns when the sums for the own rows of a channel's step 0 hold all that the steps of all ranks gave them.
  virtual void settle(std::size_t) {}
  /// Frees the buffers.
  virtual void finish() {}
  /// Collective: no other rank needs this one any more.
  virtual void close() {}
};

}  // namespace annulus::strategies
