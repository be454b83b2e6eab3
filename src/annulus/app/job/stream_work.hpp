// A run of strategy stream: block after block out of the input into the result, by each rank on its own.
#pragma once

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::app {

/// What a rank did in this launch, all its blocks together. Of hops there are two: own rows, and what was read of other
/// blocks.
struct StreamMetrics {
  core::RankMetrics forward{0, {{}, {}}}, backward{0, {{}, {}}};
  Index units = 0;
  Index peak_bytes = 0;       ///< of tensors and buffers
  Index predicted_bytes = 0;  ///< of the largest unit that it computed
  core::RowTraffic read, written;
  report::LseFindings lse;  ///< of its rows alone
};

class StreamWork {
 public:
  explicit StreamWork(const Job& job);

  Cuts cuts() const;
  /// Stored beside the result from phase to phase.
  std::vector<store::TensorSpec> scratch() const;
  const strategies::BlockPasses& passes() const { return passes_; }

  /// Computes units until there are none left for this rank; local. Throws Error.
  void run(LongRun& long_run, const strategies::Progress& progress);
  /// Where no file is written: an even share of the units, and their results are dropped.
  void run_without_file(const comm::Communicator& comm, const strategies::Progress& progress);
  const StreamMetrics& metrics() const { return metrics_; }

 private:
  /// `sink`: nullptr drops results. Returns the unit's sink_note().
  std::string compute(const Unit& unit, core::RowSource& source, core::RowSink* sink, double begun,
                      const strategies::Progress& progress);

  const Job& job_;
  const strategies::BlockPasses passes_;
  StreamMetrics metrics_;
};

}  // namespace annulus::app
