// Times passes, and ends the job if a rank fails in a pass. Gathers on rank 0 what all ranks of a run measured,
// as columns of numbers for /run in the result file, the JSON report and the summary.
#pragma once

#include <algorithm>
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

/// The measurements of this rank in one pass.
struct Pass {
  core::LayerMetrics metrics;  ///< without a layer, only `attention` is set
  double seconds = 0;          ///< wall time between two barriers; in strategy stream, this pass's share of it
  Index peak_bytes = 0;        ///< peak of this rank's tensors and buffers
};

/// Runs `work`, which the watchdog's messages call `name`, between two barriers. Collective. An AgreedError, which
/// `work` throws on all ranks, is thrown again. If `work` throws anything else, this rank ends the job, because other
/// ranks may be waiting for messages of this rank; but a job of one rank throws the exception again.
Pass run_pass(const comm::Communicator& comm, const std::string& name, const std::function<core::LayerMetrics()>& work);

/// What was found in the log-sum-exps of a unit, of a rank, or of all rows.
struct LseFindings {
  Index rows = 0;      ///< number of (batch, row, head) triples of queries
  Index keyless = 0;   ///< how many of `rows` see no key: lse = -inf
  double largest = 0;  ///< the largest |lse| of the other `rows`

  void add(const LseFindings& more) {
    rows += more.rows;
    keyless += more.keyless;
    largest = std::max(largest, more.largest);
  }
};

/// The numbers of a pass for every rank, and for every rank and hop. They are complete on rank 0.
struct PassMeasurements {
  Index hops = 1;      ///< number of hops; hop 0 is the work on a rank's own rows
  double seconds = 0;  ///< wall time of the slowest rank
  std::vector<store::Column> per_rank;
  std::vector<store::Column> per_hop;
  std::optional<store::Column> per_sender;  ///< bytes to each rank from each rank; empty with more than 1024 ranks

  /// Call these functions on rank 0. of() returns the values of a column with one number for each rank; empty if the
  /// column was not measured. sum() and most() return the sum and the maximum of these values. For most(), the column
  /// must have been measured.
  std::vector<double> of(const std::string& name) const;
  double sum(const std::string& name) const;
  double most(const std::string& name) const;
};

struct Measurements {
  int ranks = 1;
  PassMeasurements forward;  ///< also has the columns of the whole run: rows, reading, writing
  std::optional<PassMeasurements> statistics, backward;
  double read_seconds = 0;   ///< time of the slowest rank
  double write_seconds = 0;  ///< time of the slowest rank
  LseFindings lse;
  std::vector<std::pair<std::string, std::string>> lines{};  ///< further lines of the summary, on rank 0: name and text
};

/// A measured quantity: its name in /run, its units, and its description.
struct Quantity {
  const char* name;
  const char* units;
  const char* about;
};
/// Gathers one number from every rank. Collective. The column is complete on rank 0.
store::Column per_rank(const Quantity& quantity, double value, const comm::Communicator& comm);
/// Gathers the measurements of all ranks in a pass. Collective. The result is complete on rank 0. `predicted_bytes`:
/// the planned peak.
PassMeasurements gather(const Pass& pass, Index predicted_bytes, bool of_layer, const comm::Communicator& comm);
/// Gathers how many bytes each rank receives from each rank, as planned. `bytes_from`: P numbers, for this rank. Empty
/// with more than 1024 ranks. Collective. The column is complete on rank 0.
std::optional<store::Column> per_sender(const std::vector<Index>& bytes_from, const comm::Communicator& comm);

/// The datasets of /run that hold numbers. The datasets of the statistics pass and of the backward pass have the names
/// that the forward pass has in /run, but are in /run/statistics and /run/backward.
std::vector<store::Column> columns(const Measurements& measured);

}  // namespace annulus::report
