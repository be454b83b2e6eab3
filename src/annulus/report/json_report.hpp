// A machine-readable report: names and values in order, written as JSON.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/store/files/atomic_file.hpp"

namespace annulus::report {

/// One name with its value: number, word, list of numbers, or a group of entries.
struct ReportEntry {
  std::string name;
  std::variant<bool, core::Index, double, std::string, std::vector<double>, std::vector<ReportEntry>> value;
};

/// Writes the entries as a JSON object and puts the file in place. NaN and infinity become null. Throws Error(failure).
void write_report(store::AtomicFile& file, const std::vector<ReportEntry>& entries);

}  // namespace annulus::report
