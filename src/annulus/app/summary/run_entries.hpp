// What was run, and on what, in the JSON report: one value each, so that the reports of many runs make a table.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/report/json_report.hpp"

namespace annulus::app {

/// Shape, pattern, settings as they were decided, program and machine; collective, complete on rank 0.
std::vector<report::ReportEntry> run_entries(const Job& job, const comm::Communicator& comm);

/// How rows are dealt to the ranks: the kind of partition that was asked for or that the strategy took.
std::string name_of_partition(const Job& job);

}  // namespace annulus::app
