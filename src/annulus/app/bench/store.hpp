// What is known of a sweep's cases, on disk: finished ones are never lost and never measured again. On rank 0 alone.
#pragma once

#include "annulus/app/bench/columns.hpp"

namespace annulus::app {

using CaseRecords = std::vector<std::optional<store::CaseRecord>>;

class SweepStore {
 public:
  /// Looks at what earlier launches left. Throws Error(failure) where files cannot be made, are no sweep's, or another
  /// sweep's, with what differs.
  explicit SweepStore(const runfile::BenchFile& file);

  /// By case; empty where there is none.
  CaseRecords records() const { return best_records(read(), file_.cases); }
  /// Cases that an earlier launch has begun, finished or not.
  std::vector<Index> begun() const { return store::read_parts(table_, identity_).begun; }

  /// Keeps a record, and notes that cases are begun: on disk when they return. Throws Error(failure).
  void keep(const store::CaseRecord& record) { launch_.append(record); }
  void begin(const std::vector<Index>& numbers) { launch_.begin(numbers); }

  /// Makes the table of all that there is, other launches' cases, too, and returns that. Files that say so already are
  /// left as they are.
  CaseRecords make_table(const std::vector<std::pair<std::string, std::string>>& provenance) const;

 private:
  std::vector<store::CaseRecord> read() const;
  report::SweepTable table_of(const CaseRecords& records,
                              const std::vector<std::pair<std::string, std::string>>& provenance) const;

  const runfile::BenchFile& file_;
  const std::string table_, json_, identity_;
  store::LaunchFile launch_;
};

}  // namespace annulus::app
