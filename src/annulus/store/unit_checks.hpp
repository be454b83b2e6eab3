// Checksums of the numbers that a unit has written to NAME.part. The journal keeps them with the unit, so a launch that
// continues the run notices if a disk has changed the numbers meanwhile.
//
// A checksum is a sum with one term for each 8-byte word. A term depends on the word and its position in the file. So
// it does not matter which rank wrote which rows in which order. A word of zeros adds 0, so a piece may contain rows
// that were never written.
//
// Worked example: "out 77 1 0 128 1 64 0 4" says that the unit has written, with checksum 77, one piece of dataset out:
// batch entry 0, 64 rows from row 128 on with stride 1, heads [0, 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// The pieces of one dataset that a unit has written, and their checksum.
struct UnitCheck {
  std::vector<core::RowPiece> pieces;  ///< their memory and pitches are not used
  std::uint64_t sum = 0;

  /// Adds pieces to `pieces`. Pass the bytes of these pieces to add_bytes(), too.
  void add(const RowLayout& layout, const std::vector<core::RowPiece>& more);
  /// Adds bytes to the sum. They belong at byte `begin` of the file, and are whole heads, as in the calls of
  /// for_each_stretch().
  void add_bytes(const RowLayout& layout, Index begin, const std::byte* bytes, Index count);
};

using UnitChecks = std::map<std::string, UnitCheck>;  // key: name of the dataset

/// The sum of all ranks' checks. A dataset's pieces become the smallest range of batch entries, rows and heads that
/// contains them. Collective; a rank may have written datasets that other ranks have not written.
UnitChecks together(const UnitChecks& here, const comm::Communicator& comm);

/// The checks as one line. parse_checks() throws Error(failure) if the text is damaged.
std::string text_of(const UnitChecks& checks);
UnitChecks parse_checks(const std::string& text);

}  // namespace annulus::store
