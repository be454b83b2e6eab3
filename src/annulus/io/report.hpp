// A machine-readable report: names and values in order, written as JSON.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::io {

/// One name with its value: number, word, list of numbers, or a group of entries.
struct ReportEntry {
  std::string name;
  std::variant<bool, core::Index, double, std::string, std::vector<double>, std::vector<ReportEntry>> value;
};

/// Throws Error(failure) when no file can be made at `path`: found before the computation. Call on one rank.
void check_report_place(const std::string& path);

/// Writes the entries as a JSON object, complete or not at all, replacing an older report. NaN and infinity become
/// null. Call on one rank. Throws Error(failure).
void write_report(const std::string& path, const std::vector<ReportEntry>& entries);

}  // namespace annulus::io
