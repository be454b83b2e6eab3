// What a run leaves behind about itself: /run and /provenance of the result file, the JSON report, the summary on
// stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job.hpp"
#include "annulus/io/report.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::app {

/// Wall seconds of this rank's phases.
struct Times {
  double read = 0;
  double attention = 0;
  double write = 0;
};

/// A number of every rank, or of every rank and hop, gathered on rank 0.
struct Measurements {
  int ranks = 1;
  Index hops = 1;  ///< hop 0 is the work on own rows
  std::vector<io::Column> per_rank;
  std::vector<io::Column> per_hop;
  Times slowest;  ///< longest of each phase over the ranks

  /// Values of a per-rank column.
  const std::vector<double>& of(const std::string& name) const;
};

/// Collective; complete on rank 0.
Measurements gather(const Job& job, const core::RankMetrics& metrics, const Times& times,
                    const comm::Communicator& comm);

/// Datasets of /run.
std::vector<io::Column> columns(const Measurements& measured);
/// Attributes of /provenance; collective.
std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm);
std::vector<io::ReportEntry> report(const Job& job, const Measurements& measured);
void print_summary(const Job& job, const Measurements& measured);

/// The batch system's job number, or nothing.
std::string job_id();

}  // namespace annulus::app
