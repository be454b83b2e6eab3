// Reports of a run: what was decided (attributes of /run in the result file), the JSON report, and the summary on
// stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job/ranges.hpp"
#include "annulus/report/text.hpp"

namespace annulus::app {

/// The kind of partition that gives rows to ranks: the kind that the run file or `auto` sets, otherwise the strategy's
/// own; `contiguous` with layer.sharding tensor.
std::string name_of_partition(const Job& job);
/// The name of the strategy that is used. With layer.sharding tensor it is `single`.
std::string name_of_strategy(const Job& job);
/// The same name, followed by " (auto)" if annulus chose the strategy.
std::string describe_strategy(const Job& job);

/// Attributes of /run in the result: `strategy` and `partition`, as the run file or annulus decided, and `passes` if
/// the run was cut into several slices.
std::vector<std::pair<std::string, std::string>> decisions(const Job& job);

/// The part of the JSON report that says what was run, and where: shape, pattern, resolved settings, program and
/// machine. Each entry is one value, so that reports of many runs can form a table. Collective; complete on rank 0.
report::Json run_entries(const Job& job, const comm::Communicator& comm);
/// The whole JSON report. `ran` is the result of run_entries().
report::Json report_entries(const Job& job, const report::Measurements& measured, const report::Json& ran);
void print_summary(const Job& job, const report::Measurements& measured);

}  // namespace annulus::app
