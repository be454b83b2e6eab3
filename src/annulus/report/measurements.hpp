// Passes, in which ranks wait for each other's messages, timed and guarded; and what the ranks of a run measured,
// gathered on rank 0: columns of numbers for /run of the result file, the JSON report and the summary.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/layer_metrics.hpp"
#include "annulus/store/result_layout.hpp"

namespace annulus::report {

using core::Index;

/// One pass as this rank saw it.
struct Pass {
  core::LayerMetrics metrics;  ///< of attention alone where there is no layer round it
  double seconds = 0;          ///< wall time from one barrier to the next
  Index peak_bytes = 0;
};

/// Runs `work`, known to the watchdog as `name`, between two barriers; collective. A rank that fails alone in the
/// middle cannot tell the others, who may be waiting for its messages: it ends the job. An AgreedError, of which all
/// ranks know, is thrown on.
Pass run_pass(const comm::Communicator& comm, const std::string& name, const std::function<core::LayerMetrics()>& work);

/// What the log-sum-exps of all ranks' rows tell.
struct LseFindings {
  Index rows = 0;      ///< of queries, each (batch, row, head) counted
  Index keyless = 0;   ///< of them: no key, lse = -inf
  double largest = 0;  ///< |lse| of the others
};

/// A pass's numbers of every rank, and of every rank and hop; on rank 0.
struct PassMeasurements {
  Index hops = 1;      ///< hop 0 is the work on own rows
  double seconds = 0;  ///< longest over the ranks
  std::vector<store::Column> per_rank;
  std::vector<store::Column> per_hop;
  std::optional<store::Column> per_sender;  ///< bytes from each rank; with more than a thousand ranks there is none

  /// The values of a per-rank column; empty where it was not measured.
  std::vector<double> of(const std::string& name) const;
  double sum(const std::string& name) const;
  double most(const std::string& name) const;
};

struct Measurements {
  int ranks = 1;
  PassMeasurements forward;  ///< with the columns of the whole run: rows, reading, writing
  std::optional<PassMeasurements> statistics, backward;
  double read_seconds = 0;   ///< longest over the ranks
  double write_seconds = 0;  ///< longest over the ranks
  LseFindings lse;
  std::vector<std::pair<std::string, std::string>> lines{};  ///< more of the summary, on rank 0: name and text
};

/// What is measured: its name in /run, its units, and what it is, in words.
struct Quantity {
  const char* name;
  const char* units;
  const char* about;
};
/// A number of every rank; collective, complete on rank 0.
store::Column per_rank(const Quantity& quantity, double value, const comm::Communicator& comm);
/// What the ranks saw of a pass; collective, complete on rank 0. `predicted_bytes` of this rank's peak.
PassMeasurements gather(const Pass& pass, Index predicted_bytes, bool of_layer, const comm::Communicator& comm);
/// Bytes that every rank received from each, as planned, which is as sent; collective, complete on rank 0.
std::optional<store::Column> per_sender(const std::vector<Index>& bytes_from, const comm::Communicator& comm);

/// Datasets of /run; those of the other passes have the same names in /run/statistics and /run/backward.
std::vector<store::Column> columns(const Measurements& measured);

}  // namespace annulus::report
