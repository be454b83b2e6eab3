// The table of a sweep as files: HDF5, and JSON with the same. For one rank.
//
//   /cases/<column>   one entry a case: float64, int64 or text, with an attribute `units` where there is a unit;
//                     /cases/number counts the cases from 0
//   /sweep            text: which sweep this is ("key: value" lines)
//   /records          text: what was measured as the launches wrote it, a line of JSON each, from which a later launch
//                     knows what is done
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
  std::string units;  ///< "s", "bytes"; empty: none
  std::variant<std::vector<double>, std::vector<Index>, std::vector<std::string>> values;
};

struct SweepTable {
  std::vector<Index> numbers;        ///< of the cases
  std::vector<TableColumn> columns;  ///< as many values each
  std::string identity;
  std::string records;
  std::vector<std::pair<std::string, std::string>> provenance;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< of the file itself
};

/// Puts the files in place, complete or not at all; `json` empty: none. Those that are replaced must be a sweep's.
/// Throws Error(failure).
void write_sweep_table(const std::string& file, const std::string& json, const SweepTable& table);

/// What an earlier table says; empty strings where there is no file. Throws Error(failure) where the file is none of a
/// sweep.
struct EarlierTable {
  std::string identity, records;
};
EarlierTable read_sweep_table(const std::string& file);

/// Whether both files are there and have these cases, whichever launch made them. Throws Error(failure) where the first
/// is none of a sweep.
bool tables_have_cases(const std::string& file, const std::string& json, const SweepTable& table);

/// Refuses places where the files cannot be made, and files there that are no sweep's. Throws Error(failure).
void check_tables_can_be_made(const std::string& file, const std::string& json);

}  // namespace annulus::report
