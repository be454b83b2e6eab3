// Looks for numbers that are none or stand for missing ones, and for the largest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// A NaN or infinity at position `index` of an array, or a number that stands for a missing one.
struct NonFinite {
  core::Index index = 0;
  double value = 0;
  std::string missing_by{};  ///< attribute that says that the number is missing; empty: it is NaN or infinite

  /// What should stand there, for the end of a message: "expected finite numbers".
  std::string expected() const;
};

/// Which of some numbers are looked at: the first `numbers` of every `apart`, or where these are equal all. What is
/// found is counted among these alone. Worked example: values of 128 in rows that a key's 192 begin: {128, 320}.
struct Spacing {
  core::Index numbers = 0, apart = 0;
};

/// The first number among `count` ones of a storage type that is one of the missing ones, rounded to that type.
std::optional<NonFinite> find_missing(const void* numbers, core::DType type, core::Index count,
                                      const MissingValues& missing);

/// The first NaN or infinity among `count` numbers of a storage type; where there is none, find_missing().
std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, core::Index count,
                                         const MissingValues& missing = {}, const Spacing& spacing = {});

/// The same among numbers that were read, by what their layout allows.
inline std::optional<NonFinite> find_unwanted(const RowLayout& layout, const void* numbers, core::Index count) {
  if (layout.is_finite) return find_non_finite(numbers, layout.memory, count, layout.missing);
  return find_missing(numbers, layout.memory, count, layout.missing);
}

/// Largest absolute value among `count` finite numbers of a storage type; 0 of none.
double largest_magnitude(const void* numbers, core::DType type, core::Index count, const Spacing& spacing = {});

/// Every rank learns of the NaN, infinity or missing number that comes first in the global tensor (B, S, ...), if there
/// is one, as an AgreedError that names it and its index in the file, in the words of the rank that has it; collective.
/// `found` counts over this rank's (B, rows, ...). Where `info` is a part of the dataset, `first` is where it begins.
void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const DatasetInfo& info, const comm::Communicator& comm,
                  const std::string& expected = "expected finite numbers", const std::vector<core::Index>& first = {});

/// Throws Error(failure) where what is kept of a matrix holds a NaN or infinity: "WHERE holds nan at [3, 7], EXPECTED".
/// On this rank alone.
void check_finite(const std::string& where, const MatrixPart& part, core::DType type, const std::string& expected);

}  // namespace annulus::store
