// The columns of a sweep's table: what is measured for a case, and how it is printed.
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

/// The measurements of all repeats of a case, on rank 0.
struct CaseMeasurements {
  std::vector<report::PassMeasurements> forward;     ///< one for each repeat
  std::vector<report::PassMeasurements> backward;    ///< one for each repeat; empty without gradients
  double peak_bytes = 0;                             ///< on the rank where it is largest
  double predicted_peak_bytes = 0;                   ///< on the rank where it is largest
  double predicted_seconds = 0;                      ///< NaN: the model cannot predict it
  double peak_gflop_per_cpu_second = 0;              ///< rate of one thread that does only multiply-adds; 0: not known
  const kernels::LibraryBackend* library = nullptr;  ///< the library that the back end uses; nullptr: none
  kernels::ComputedPairs pairs = {};                 ///< counted on rank 0
  verify::Findings findings;                         ///< without verdicts if no rows were compared
};

/// `status` of a case. ok: measured, and all compared rows are right. wrong: measured, but some row is outside the
/// tolerance. failed: an error stopped it; a later launch tries again. missing: not measured yet.
inline constexpr const char* status_ok = "ok";
inline constexpr const char* status_wrong = "wrong";
inline constexpr const char* status_failed = "failed";
inline constexpr const char* status_missing = "missing";

/// The record of a measured case, on rank 0. `launch` has the columns that have the same values for all cases of a
/// launch, such as ranks and hosts.
store::CaseRecord record_of_case(const runfile::BenchCase& one, const Job& job, const CaseMeasurements& measured,
                                 const store::CaseRecord& launch);
/// The record of a case that `error` stopped.
store::CaseRecord record_of_failure(const runfile::BenchCase& one, const std::string& error,
                                    const store::CaseRecord& launch);

bool is_measured(const store::CaseRecord& record);

/// One record for each case, in the order of the cases; empty for a case without a record.
using CaseRecords = std::vector<std::optional<store::CaseRecord>>;
/// Chooses one record for each case: a measured record rather than a failed one, and among these the earliest.
CaseRecords best_records(const std::vector<store::CaseRecord>& all, const std::vector<runfile::BenchCase>& cases);

/// The swept keys, then the measured columns. A value that was not measured is NaN, 0 in a column of whole numbers,
/// `missing` in the column `status`, or "" in another column of texts.
std::vector<report::TableColumn> table_columns(const std::vector<runfile::BenchCase>& cases,
                                               const CaseRecords& records);

/// The table as it is printed on rank 0: one line for each case that has a record, at most `most` lines.
std::string printed_table(const std::vector<runfile::BenchCase>& cases, const CaseRecords& records, std::size_t most);

}  // namespace annulus::app
