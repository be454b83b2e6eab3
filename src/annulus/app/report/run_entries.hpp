// What was run, and on what, in the JSON report: one value each, so that the reports of many runs make a table.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/io/report.hpp"

namespace annulus::app {

/// Shape, pattern, settings as they were decided, program and machine; collective, complete on rank 0.
std::vector<io::ReportEntry> run_entries(const Job& job, const comm::Communicator& comm);

/// How rows are dealt to the ranks: the kind of partition that was asked for or that the strategy took.
std::string name_of_partition(const Job& job);

/// "Intel(R) Xeon(R) Platinum 8480+", as the kernel of this machine tells it; what kind of machine it is where it does
/// not.
std::string cpu_name();

}  // namespace annulus::app
