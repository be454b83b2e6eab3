#include "annulus/app/bench/store.hpp"

#include <sstream>

#include "annulus/app/job/provenance.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"

namespace annulus::app {
namespace {

/// The records that a table's text holds.
std::vector<store::CaseRecord> records_in(const std::string& lines) {
  std::vector<store::CaseRecord> all;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    if (auto record = store::record_of(line)) all.push_back(std::move(*record));
  }
  return all;
}

std::string lines_of(const CaseRecords& records) {
  std::string lines;
  for (const auto& record : records) {
    if (record) lines += store::line_of(*record) + "\n";
  }
  return lines;
}

}  // namespace

SweepStore::SweepStore(const runfile::BenchFile& file)
    : file_(file),
      table_(runfile::follow_links(file.settings.file)),
      json_(file.settings.json.value_or("")),
      identity_(file.identity()),
      launch_(table_, identity_) {
  report::check_tables_can_be_made(table_, json_);
  read();
}

std::vector<store::CaseRecord> SweepStore::read() const {
  std::vector<store::CaseRecord> all = store::read_parts(table_, identity_).records;
  const report::EarlierTable earlier = report::read_sweep_table(table_);
  if (!earlier.identity.empty()) store::check_same_sweep(table_, earlier.identity, identity_);
  for (store::CaseRecord& record : records_in(earlier.records)) all.push_back(std::move(record));
  return all;
}

CaseRecords SweepStore::make_table(const std::vector<std::pair<std::string, std::string>>& provenance) const {
  for (;;) {
    const std::string seen = store::state_of_parts(table_);
    CaseRecords records = this->records();
    const report::SweepTable table = table_of(records, provenance);
    if (!table.records.empty() && !report::sweep_table_tells(table_, json_, table)) {
      report::write_sweep_table(table_, json_, table);
    }
    // Another launch may have added a case since, and made a table with it, which this table has just replaced.
    if (store::state_of_parts(table_) == seen) return records;
  }
}

report::SweepTable SweepStore::table_of(const CaseRecords& records,
                                        const std::vector<std::pair<std::string, std::string>>& provenance) const {
  report::SweepTable table;
  for (const runfile::BenchCase& one : file_.cases) table.numbers.push_back(one.number);
  table.columns = table_columns(file_.cases, records);
  table.identity = identity_;
  table.records = lines_of(records);
  table.provenance = provenance;
  table.attributes = identity(fmt::format("annulus bench: a sweep of {} cases", table.numbers.size()));
  return table;
}

}  // namespace annulus::app
