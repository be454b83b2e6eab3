// What a run leaves behind about itself: /run and /provenance of the result file, the JSON report, the summary on
// stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job/ranges.hpp"
#include "annulus/report/text.hpp"

namespace annulus::app {

/// How rows are dealt to the ranks: the kind of partition that was asked for or that the strategy took.
std::string name_of_partition(const Job& job);

/// Attributes of /run: what was decided by the program or its user, and took part in what was measured.
std::vector<std::pair<std::string, std::string>> decisions(const Job& job);

/// What was run, and on what, in the JSON report: shape, pattern, settings as they were decided, program and machine;
/// one value each, so that the reports of many runs make a table. Collective, complete on rank 0.
report::Json run_entries(const Job& job, const comm::Communicator& comm);
/// The report; `ran`: run_entries().
report::Json report_entries(const Job& job, const report::Measurements& measured, const report::Json& ran);
void print_summary(const Job& job, const report::Measurements& measured);

}  // namespace annulus::app
