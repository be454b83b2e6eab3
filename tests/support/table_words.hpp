// Lists the words of a table in the source (pattern::semantics_table, pattern::partition_table) as messages do.
#pragma once

#include <string>

namespace annulus::test {

/// "longnet, paper, ...". A test that uses this need not change when a table gets a new entry.
template <class Table>
std::string words_of(const Table& table) {
  std::string words;
  for (const auto& entry : table) words += (words.empty() ? "" : ", ") + std::string(entry.name);
  return words;
}

}  // namespace annulus::test
