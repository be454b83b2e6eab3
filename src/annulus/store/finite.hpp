// Finds numbers that are NaN, infinite or stand for missing ones, and the largest number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// What was found at position `index` of an array: a NaN, an infinity, or a number that stands for a missing one.
struct NonFinite {
  core::Index index = 0;
  double value = 0;
  std::string missing_by{};  ///< the attribute that makes the number a missing one; empty: it is NaN or infinite

  /// What should be there instead, as the end of a message: "expected finite numbers".
  std::string expected() const;
};

/// Checks the first `numbers` of every `apart` numbers; all if both are equal. A result's index counts only checked
/// numbers. Worked example: each row has 192 numbers of k, then 128 of v. From v on, {128, 320} checks v only.
struct Spacing {
  core::Index numbers = 0, apart = 0;
};

/// The first of `count` numbers that equals a missing value after rounding to their type.
std::optional<NonFinite> find_missing(const void* numbers, core::DType type, core::Index count,
                                      const MissingValues& missing);

/// The first NaN or infinity among `count` numbers of a storage type; if there is none, find_missing().
std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, core::Index count,
                                         const MissingValues& missing = {}, const Spacing& spacing = {});

/// The first of `count` numbers that the layout does not allow.
inline std::optional<NonFinite> find_unwanted(const RowLayout& layout, const void* numbers, core::Index count) {
  if (layout.is_finite) return find_non_finite(numbers, layout.memory, count, layout.missing);
  return find_missing(numbers, layout.memory, count, layout.missing);
}

/// Largest absolute value of `count` finite numbers of a storage type; 0 if there are none.
double largest_magnitude(const void* numbers, core::DType type, core::Index count, const Spacing& spacing = {});

/// Throws the same AgreedError on every rank for the bad number that comes first in the global tensor (B, S, ...), if a
/// rank found one; that rank writes the message, with the index in the file. The index in `found` counts this rank's
/// (B, rows, ...). If `info` describes only a part of the dataset, `first` is where the part begins. Collective.
void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const DatasetInfo& info, const comm::Communicator& comm,
                  const std::string& expected = "expected finite numbers", const std::vector<core::Index>& first = {});

/// Throws Error(failure) if the kept part of a matrix contains a NaN or infinity: "WHERE holds nan at [3, 7],
/// EXPECTED". Local.
void check_finite(const std::string& where, const MatrixPart& part, core::DType type, const std::string& expected);

}  // namespace annulus::store
