// The columns of a sweep's table: what is measured of a case, and how it is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/report/sweep_table.hpp"
#include "annulus/runfile/bench_file.hpp"
#include "annulus/store/sweep_parts.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::app {

/// What the repeats of a case gave, on rank 0.
struct CaseMeasurements {
  std::vector<report::PassMeasurements> forward;     ///< one a repeat
  std::vector<report::PassMeasurements> backward;    ///< as many, or none
  double peak_bytes = 0;                             ///< fullest rank
  double predicted_peak_bytes = 0;                   ///< fullest rank
  double predicted_seconds = 0;                      ///< NaN: no closed form is known
  double peak_gflop_per_cpu_second = 0;              ///< multiply-adds alone, a thread; 0: not known
  const kernels::LibraryBackend* library = nullptr;  ///< the back end, where that is a library
  kernels::ComputedPairs pairs = {};                 ///< rank 0's
  verify::Findings findings;                         ///< no verdicts: nothing was looked at
};

/// `status` of a case: measured and right as far as rows were looked at, measured and outside the tolerance, not
/// measured because of an error (a later launch tries again), not measured yet.
inline constexpr const char* status_ok = "ok";
inline constexpr const char* status_wrong = "wrong";
inline constexpr const char* status_failed = "failed";
inline constexpr const char* status_missing = "missing";

/// The record of a measured case, on rank 0. `launch` has the columns that all cases of a launch have in common: ranks,
/// hosts.
store::CaseRecord record_of_case(const runfile::BenchCase& one, const Job& job, const CaseMeasurements& measured,
                                 const store::CaseRecord& launch);
store::CaseRecord record_of_failure(const runfile::BenchCase& one, const std::string& error,
                                    const store::CaseRecord& launch);

bool is_measured(const store::CaseRecord& record);

/// The record that counts for each case, in the order of the cases: a measured one rather than a failed one, then the
/// earlier one. A case without a record has nothing.
std::vector<std::optional<store::CaseRecord>> best_records(const std::vector<store::CaseRecord>& all,
                                                           const std::vector<runfile::BenchCase>& cases);

/// Swept keys, then what was measured; NaN and "" of cases that are missing.
std::vector<report::TableColumn> table_columns(const std::vector<runfile::BenchCase>& cases,
                                               const std::vector<std::optional<store::CaseRecord>>& records);

/// The table for people, rank 0: a line for each case that has a record, up to `most` of them.
std::string printed_table(const std::vector<runfile::BenchCase>& cases,
                          const std::vector<std::optional<store::CaseRecord>>& records, std::size_t most);

}  // namespace annulus::app
