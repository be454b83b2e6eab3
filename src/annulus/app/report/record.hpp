// What a run leaves behind about itself: /run and /provenance of the result file, the JSON report, the summary on
// stdout.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/app/report/pass.hpp"
#include "annulus/io/report.hpp"
#include "annulus/io/result_layout.hpp"

namespace annulus::app {

/// A pass's numbers of every rank, and of every rank and hop; on rank 0.
struct PassMeasurements {
  Index hops = 1;      ///< hop 0 is the work on own rows
  double seconds = 0;  ///< longest over the ranks
  std::vector<io::Column> per_rank;
  std::vector<io::Column> per_hop;
  std::optional<io::Column> per_sender;  ///< bytes from each rank; with more than a thousand ranks there is none

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
io::Column per_rank(const Quantity& quantity, double value, const comm::Communicator& comm);
/// What the ranks saw of a pass; collective, complete on rank 0. `predicted_bytes` of this rank's peak.
PassMeasurements gather(const Pass& pass, Index predicted_bytes, bool of_layer, const comm::Communicator& comm);
/// Bytes that every rank received from each, as planned, which is as sent; collective, complete on rank 0.
std::optional<io::Column> per_sender(const std::vector<Index>& bytes_from, const comm::Communicator& comm);

/// "2026-11-23T12:00:00Z".
std::string utc_now();

/// Datasets of /run; those of the other passes have the same names in /run/statistics and /run/backward.
std::vector<io::Column> columns(const Measurements& measured);
/// Attributes of /run: what was decided by the program or its user, and took part in what was measured.
std::vector<std::pair<std::string, std::string>> decisions(const Job& job);
/// Attributes of /provenance; collective.
std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm);
/// Attributes of the file itself, the same wherever and whenever it is made; `title` says what is in it.
std::vector<std::pair<std::string, std::string>> identity(const std::string& title);
/// `ran`: what was run, run_entries().
std::vector<io::ReportEntry> report(const Job& job, const Measurements& measured, std::vector<io::ReportEntry> ran);
void print_summary(const Job& job, const Measurements& measured);

/// The ranks' words, each once, in order of appearance: "node1, node2".
std::string distinct(const std::vector<std::string>& words);

/// The batch system's job number, or nothing.
std::string job_id();

}  // namespace annulus::app
