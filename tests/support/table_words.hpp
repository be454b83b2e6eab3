// The words of a table of the source (pattern::semantics_table, pattern::partition_table), as messages list them.
#pragma once

#include <string>

namespace annulus::test {

/// "longnet, paper, ...": a test that lists the words itself would have to change with every new entry.
template <class Table>
std::string words_of(const Table& table) {
  std::string words;
  for (const auto& entry : table) words += (words.empty() ? "" : ", ") + std::string(entry.name);
  return words;
}

}  // namespace annulus::test
