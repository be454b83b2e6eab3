// Where the sums of dK and dV for the rows of a rank's steps go: into the own ones, or by whatever way to their owner.
#pragma once

#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// Sums of one rank. Use in step with the key source: begin(round, own); for every step s start(s), and for each lane
/// open(s, lane), the work on its block, leave(s, lane), with progress() now and then; complete(s). Behind the last
/// step settle(lane) for each; finish() behind the last round; close() when the results are made.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// A round of passes(problem), which the key source has begun; `own` are the sums for the rank's own rows.
  virtual void begin(const Problem& round, const GradientBlock& own) = 0;
  /// Steps in which sums move, perhaps more than there are keys.
  virtual std::size_t steps() const { return 1; }

  /// Sends what step s - 1 left, before the kernel works on step s.
  virtual void start(std::size_t) {}
  /// Where to add up what the block of step s in a lane gives; has the form of that block. Nothing: it gives nothing.
  virtual std::optional<GradientBlock> open(std::size_t s, std::size_t lane) = 0;
  /// The kernel is done with the block, if there was one.
  virtual void leave(std::size_t, std::size_t) {}
  /// Lets messages move. Cheap.
  virtual void progress() {}
  virtual void complete(std::size_t) {}
  /// Returns when the sums for the own rows of a lane's step 0 hold all that the steps of all ranks gave them.
  virtual void settle(std::size_t) {}
  /// Frees the buffers.
  virtual void finish() {}
  /// Collective: no other rank needs this one any more.
  virtual void close() {}
};

/// Makes a rank's gradient sink beside its key source; collective.
using MakeSums = std::function<std::unique_ptr<GradientSink>(const Setting&, const KeySource&)>;

/// A backward pass: how keys come and where the sums of their gradients go. Predicted memory is without what the pass
/// reads (backward_inputs()).
struct BackwardPass {
  MakeKeys keys;
  MakeSums sums;
  Predict predict;
};

/// Own keys, own sums.
BackwardPass own_gradients();

/// Where no rank works on another one's rows.
class OwnSums final : public GradientSink {
 public:
  void begin(const Problem&, const GradientBlock& own) override { own_ = own; }
  std::optional<GradientBlock> open(std::size_t, std::size_t) override { return own_; }

 private:
  GradientBlock own_;
};

}  // namespace annulus::strategies
