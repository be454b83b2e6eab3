#include "annulus/app/bench/store.hpp"

#include <sstream>

#include "annulus/app/report/record.hpp"
#include "annulus/io/file_system.hpp"

namespace annulus::app {
namespace {

/// The records that a table's text holds.
std::vector<io::CaseRecord> records_in(const std::string& lines) {
  std::vector<io::CaseRecord> all;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    if (auto record = io::record_of(line)) all.push_back(std::move(*record));
  }
  return all;
}

std::string lines_of(const CaseRecords& records) {
  std::string lines;
  for (const auto& record : records) {
    if (record) lines += io::line_of(*record) + "\n";
  }
  return lines;
}

}  // namespace

SweepStore::SweepStore(const io::BenchFile& file)
    : file_(file),
      table_(io::follow_links(file.settings.file)),
      json_(file.settings.json.value_or("")),
      identity_(file.identity()),
      launch_(table_, identity_) {
  io::check_tables_can_be_made(table_, json_);
  read();
}

std::vector<io::CaseRecord> SweepStore::read() const {
  std::vector<io::CaseRecord> all = io::read_parts(table_, identity_).records;
  const io::EarlierTable earlier = io::read_sweep_table(table_);
  if (!earlier.identity.empty()) io::check_same_sweep(table_, earlier.identity, identity_);
  for (io::CaseRecord& record : records_in(earlier.records)) all.push_back(std::move(record));
  return all;
}

CaseRecords SweepStore::make_table(const std::vector<std::pair<std::string, std::string>>& provenance) const {
  for (;;) {
    const std::string seen = io::state_of_parts(table_);
    CaseRecords records = this->records();
    const io::SweepTable table = table_of(records, provenance);
    if (!table.records.empty() && !io::sweep_table_tells(table_, json_, table)) {
      io::write_sweep_table(table_, json_, table);
    }
    // Another launch may have added a case since, made a table with it, and seen it replaced by this one.
    if (io::state_of_parts(table_) == seen) return records;
  }
}

io::SweepTable SweepStore::table_of(const CaseRecords& records,
                                    const std::vector<std::pair<std::string, std::string>>& provenance) const {
  io::SweepTable table;
  for (const io::BenchCase& one : file_.cases) table.numbers.push_back(one.number);
  table.columns = table_columns(file_.cases, records);
  table.identity = identity_;
  table.records = lines_of(records);
  table.provenance = provenance;
  table.attributes = identity(fmt::format("annulus bench: a sweep of {} cases", table.numbers.size()));
  return table;
}

}  // namespace annulus::app
