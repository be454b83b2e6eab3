// What a run leaves behind about itself: /run and /provenance of the result file, the JSON report, the summary on
// stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/report/json_report.hpp"
#include "annulus/store/result_layout.hpp"

namespace annulus::app {

/// Attributes of /run: what was decided by the program or its user, and took part in what was measured.
std::vector<std::pair<std::string, std::string>> decisions(const Job& job);
/// `ran`: what was run, run_entries().
std::vector<report::ReportEntry> report_entries(const Job& job, const report::Measurements& measured,
                                                std::vector<report::ReportEntry> ran);
void print_summary(const Job& job, const report::Measurements& measured);

}  // namespace annulus::app
