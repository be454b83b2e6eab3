// Finds numbers that are NaN or infinite, or that mean "missing". Also finds the largest absolute value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// A bad number at position `index` of an array: a NaN, an infinity, or a number that means "missing".
struct NonFinite {
  core::Index index = 0;
  double value = 0;
  std::string missing_by{};  ///< the attribute that defines this number as "missing"; empty: it is NaN or infinite

  /// Returns the end of a message, which says what the array should have instead: "expected finite numbers".
  std::string expected() const;
};

/// Selects the numbers to check: the first `numbers` of every `apart` numbers, or all if `numbers` and `apart` are
/// equal. NonFinite::index does not count the other numbers.
/// Worked example: each row has 192 numbers of k, then 128 numbers of v. {128, 320}, with a pointer to the first number
/// of v, checks only v.
struct Spacing {
  core::Index numbers = 0, apart = 0;
};

/// Finds one of `count` numbers that equals a value of `missing`, rounded to `type`. Empty if no number does.
std::optional<NonFinite> find_missing(const void* numbers, core::DType type, core::Index count,
                                      const MissingValues& missing);

/// Finds the first NaN or infinity among `count` numbers of a storage type. If there is none, returns the result of
/// find_missing(). With `spacing`, it searches the first `numbers` of each `apart` numbers in turn.
std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, core::Index count,
                                         const MissingValues& missing = {}, const Spacing& spacing = {});

/// Finds one of `count` numbers that the layout does not allow; empty if there is none.
inline std::optional<NonFinite> find_unwanted(const RowLayout& layout, const void* numbers, core::Index count) {
  if (layout.is_finite) return find_non_finite(numbers, layout.memory, count, layout.missing);
  return find_missing(numbers, layout.memory, count, layout.missing);
}

/// Largest absolute value of `count` finite numbers of a storage type; 0 if there are none.
double largest_magnitude(const void* numbers, core::DType type, core::Index count, const Spacing& spacing = {});

/// If a rank has found a bad number, throws the same AgreedError on every rank. The message has the value of the bad
/// number that comes first in the global tensor (B, S, ...), and its index in the file. found->index counts this rank's
/// numbers (B, rows, ...). If `info` describes only a part of the dataset, `first` is the index of the part's first
/// number. Collective.
void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const DatasetInfo& info, const comm::Communicator& comm,
                  const std::string& expected = "expected finite numbers", const std::vector<core::Index>& first = {});

/// Throws Error(failure) if the rectangle part.kept of a matrix contains a NaN or infinity: "WHERE holds nan at [3, 7],
/// EXPECTED". Not collective.
void check_finite(const std::string& where, const MatrixPart& part, core::DType type, const std::string& expected);

}  // namespace annulus::store
