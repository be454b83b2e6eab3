// The cases of a sweep that its launches have measured so far. They are in a folder NAME.part beside the table NAME.
// The folder has one file for each launch. Use these functions on one rank.
//
//   sweep.h5.part/3f0c5a7799e1d2b4.jsonl    Line 1 says which sweep it is. Each other line holds one finished case, or
//                                           the numbers of cases that the launch begins to measure.
//
// A launch only appends to its own file, and changes no other file, so no locks are needed. Each line is written in one
// call and flushed to disk. If a killed process or a full disk leaves a line incomplete, readers ignore that line. A
// launch makes the table from the files of all launches. If a file has grown while the launch made the table, the
// launch makes the table again. So the last table contains all finished cases, in whatever order the launches end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

using core::Index;

/// The measurements of one case: numbers and texts, each with the name of its column.
struct CaseRecord {
  Index number = 0;  ///< number of the case
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> words;

  /// The number or text in a column; NaN or "" if there is no such column.
  double number_in(std::string_view column) const;
  std::string word_in(std::string_view column) const;
};

/// The record as one line of JSON, without a line end. NaN becomes null.
std::string line_of(const CaseRecord& record);
/// The record in a line; empty if the line holds no record.
std::optional<CaseRecord> record_of(const std::string& line);

/// The file of one launch. Writing the first line makes the file, so a launch without work leaves no file.
class LaunchFile {
 public:
  /// `table`: the path of the table; `identity`: text that says which sweep it is.
  LaunchFile(std::string table, std::string identity) : table_(std::move(table)), identity_(std::move(identity)) {}

  /// Writes a line and flushes it to disk. Throws Error(failure), but earlier lines are kept.
  void append(const CaseRecord& record);
  /// Notes that these cases have begun. Throws the same errors as append().
  void begin(const std::vector<Index>& numbers);
  /// Throws Error(failure) if the file was removed, renamed or replaced, because no launch would then read its cases.
  void check_is_there() const;

 private:
  void make();
  /// Writes a line. Before the first line, makes the file.
  void write(const std::string& line);

  std::string table_, identity_;
  std::string path_;
  Descriptor descriptor_;
  Index bytes_ = 0;
};

struct Parts {
  std::vector<CaseRecord> records;  ///< in no particular order; a case may occur twice
  std::vector<Index> begun;         ///< cases that have begun, whether they are finished or not
  std::string state;                ///< names and sizes of the files; if it has not changed, no launch has added a line
};

/// Reads all files in the table's folder. Throws Error(failure) if a file belongs to another sweep; the message says
/// how the two sweeps differ.
Parts read_parts(const std::string& table, const std::string& identity);
/// Returns only the `state` of read_parts().
std::string state_of_parts(const std::string& table);

/// The folder of the files: "sweep.h5.part".
std::string folder_of_parts(const std::string& table);

/// Throws Error(failure) if the identity `made`, found in `file`, differs from `asked`. The message says what differs,
/// and names `key`, the key of the run file that sets `file`.
void check_same_sweep(std::string_view key, const std::string& file, const std::string& made, const std::string& asked);

}  // namespace annulus::store
