// What launches of one sweep have measured, case by case: a folder NAME.part beside the table NAME with a file for each
// launch. For one rank.
//
//   sweep.h5.part/3f0c5a7799e1d2b4.jsonl    line 1: which sweep this is;  lines 2 ...: a finished case each, and before
//                                           they are finished, the numbers of cases that are begun
//
// Nothing is ever changed but by appending to a launch's own file, and nothing is removed, so that there is nothing to
// lock. A line is written at once and flushed to disk; one that a killed process (or a full disk) has cut off is no
// line: readers stop in front of it. The table is made from all files that there are; a launch that finds, when its
// table is in place, that the files have grown since it read them makes it again. So whoever is the last to make the
// table has read everything, whatever order launches end in.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

using core::Index;

/// What was measured of a case, column by column.
struct CaseRecord {
  Index number = 0;  ///< of the case
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> words;

  /// NaN, or "", where there is no such column.
  double number_of(std::string_view column) const;
  std::string word_of(std::string_view column) const;
};

/// One line of JSON, without its end. NaN is null.
std::string line_of(const CaseRecord& record);
/// Nothing where the line is no record.
std::optional<CaseRecord> record_of(const std::string& line);

/// A launch's own file: made when the first case is finished, so that a launch with nothing to do leaves none.
class LaunchFile {
 public:
  /// `table` is the table's path.
  LaunchFile(std::string table, std::string identity) : table_(std::move(table)), identity_(std::move(identity)) {}

  /// Writes a line and flushes it to disk. Throws Error(failure); what was written before is kept.
  void append(const CaseRecord& record);
  /// Notes that these cases are begun. Throws as append().
  void begin(const std::vector<Index>& numbers);

 private:
  void make();
  /// Makes the file first, where there is none.
  void write(const std::string& line);

  std::string table_, identity_;
  std::string path_;
  Descriptor descriptor_;
  Index bytes_ = 0;
};

struct Parts {
  std::vector<CaseRecord> records;  ///< in no order; a case may come twice
  std::vector<Index> begun;         ///< numbers of cases; they may be finished, too, or be measured just now
  std::string state;                ///< names and sizes of the files: equal when nothing was added
};

/// Reads all files of the table's folder. Throws Error(failure) where one belongs to another sweep, with what differs.
Parts read_parts(const std::string& table, const std::string& identity);
/// Its `state` alone.
std::string state_of_parts(const std::string& table);

/// The folder: "sweep.h5.part".
std::string folder_of_parts(const std::string& table);

/// Throws Error(failure) that says what differs unless both are the same sweep; `file` is where `made` stands.
void check_same_sweep(const std::string& file, const std::string& made, const std::string& asked);

}  // namespace annulus::store
