// Writes and reads the table of a sweep as an HDF5 file and as a JSON file. The JSON file has the same content, but
// neither /records nor the attributes of the file itself. Call these functions on one rank. The HDF5 file:
//
//   /cases/<column>   one entry for each case: float64, int64 or text, with an attribute `units` if there is a unit;
//                     /cases/number is the case's number, counted from 0; /cases/case is the columns' dimension scale
//   /sweep            text that identifies the sweep ("key: value" lines)
//   /records          text: the measurements as the launches wrote them, one line of JSON for each case that was run;
//                     later launches read here which cases are done
//   /provenance       attributes
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::report {

using core::Index;

struct TableColumn {
  std::string name;
  std::string units;  ///< "s", "bytes"; empty: no unit
  std::variant<std::vector<double>, std::vector<Index>, std::vector<std::string>> values;
};

struct SweepTable {
  std::vector<Index> numbers;        ///< numbers of the cases
  std::vector<TableColumn> columns;  ///< one value for each case
  std::string identity;
  std::string records;
  std::vector<std::pair<std::string, std::string>> provenance;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< attributes of the file itself
};

/// Makes the files, each complete or not at all; only `file` if `json` is empty. Replaces existing files, so call
/// read_sweep_table() first, which refuses a `file` that is not a table. Throws Error(failure), also if a disk is full.
void write_sweep_table(const std::string& file, const std::string& json, const SweepTable& table);

/// /sweep and /records in the table of an earlier launch; empty texts if there is no file. read_sweep_table() throws
/// Error(failure) if the file is not the table of a sweep.
struct EarlierTable {
  std::string identity, records;
};
EarlierTable read_sweep_table(const std::string& file);

/// True if the files contain these cases, whichever launch made the files. If `json` is empty, looks only at `file`.
/// Throws Error(failure) if `file` is not the table of a sweep.
bool tables_have_cases(const std::string& file, const std::string& json, const SweepTable& table);

/// Throws Error(failure) if the files cannot be made, or if `json` exists and is not the table of the sweep `identity`.
void check_tables_can_be_made(const std::string& file, const std::string& json, const std::string& identity);

}  // namespace annulus::report
