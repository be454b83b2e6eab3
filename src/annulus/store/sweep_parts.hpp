// What the launches of a sweep have measured so far: a folder NAME.part beside the table NAME, with one file for each
// launch. Use these functions on one rank.
//
//   sweep.h5.part/3f0c5a7799e1d2b4.jsonl    line 1: which sweep it is; other lines: one finished case each, and before
//                                           cases are measured, the numbers of the cases that begin
//
// A launch only appends to its own file, and never removes one, so no locks are needed. Each line is written
// in one call and flushed to disk. If a killed process (or a full disk) leaves a line incomplete, readers
// stop before it. A table is made from all files. When a launch has put its table in place, and files have
// grown meanwhile, it makes the table again. So the last table contains everything, in whatever order
// launches end.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

using core::Index;

/// The measurements of one case, column by column.
struct CaseRecord {
  Index number = 0;  ///< number of the case
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> words;

  /// The value in a column; NaN or "" if there is no such column.
  double number_in(std::string_view column) const;
  std::string word_in(std::string_view column) const;
};

/// The record as one line of JSON, without a line end. NaN becomes null.
std::string line_of(const CaseRecord& record);
/// Empty if the line is not a record.
std::optional<CaseRecord> record_of(const std::string& line);

/// The file of one launch. It is made with the first line, so a launch without work leaves no file.
class LaunchFile {
 public:
  /// `table`: the path of the table.
  LaunchFile(std::string table, std::string identity) : table_(std::move(table)), identity_(std::move(identity)) {}

  /// Writes a line and flushes it to disk. Throws Error(failure), but earlier lines are kept.
  void append(const CaseRecord& record);
  /// Notes that these cases have begun. Throws as append().
  void begin(const std::vector<Index>& numbers);

 private:
  void make();
  /// Makes the file first if there is none.
  void write(const std::string& line);

  std::string table_, identity_;
  std::string path_;
  Descriptor descriptor_;
  Index bytes_ = 0;
};

struct Parts {
  std::vector<CaseRecord> records;  ///< in no particular order; a case may occur twice
  std::vector<Index> begun;         ///< cases that have begun, whether they are finished or not
  std::string state;                ///< names and sizes of the files; equal states mean that nothing was added
};

/// Reads all files in the table's folder. Throws Error(failure) if one belongs to another sweep, and says what differs.
Parts read_parts(const std::string& table, const std::string& identity);
/// Only the `state` of read_parts().
std::string state_of_parts(const std::string& table);

/// The folder of the files: "sweep.h5.part".
std::string folder_of_parts(const std::string& table);

/// Throws Error(failure), which says what differs, unless both identities are equal; `made` is the one in `file`.
void check_same_sweep(const std::string& file, const std::string& made, const std::string& asked);

}  // namespace annulus::store
