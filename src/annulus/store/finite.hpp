// Looks for numbers that are none, and for the largest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"

namespace annulus::store {

/// A NaN or infinity at position `index` of an array.
struct NonFinite {
  core::Index index = 0;
  double value = 0;
};

/// The first NaN or infinity among `count` numbers of a storage type.
std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, core::Index count);

/// Largest absolute value among `count` finite numbers of a storage type; 0 of none.
double largest_magnitude(const void* numbers, core::DType type, core::Index count);

/// Every rank learns of the NaN or infinity that comes first in the global tensor (B, S, ...), if there is one, as an
/// AgreedError that names it and its index in the file, in the words of the rank that has it; collective. `found`
/// counts over this rank's (B, rows, ...). Where `info` is a part of the dataset, `first` is where it begins.
void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const DatasetInfo& info, const comm::Communicator& comm,
                  const std::string& expected = "expected finite numbers", const std::vector<core::Index>& first = {});

/// Throws Error(failure) where what is kept of a matrix holds a NaN or infinity: "WHERE holds nan at [3, 7], ...". On
/// this rank alone.
void check_finite(const std::string& where, const MatrixPart& part, core::DType type,
                  const std::string& expected = "expected finite numbers");

}  // namespace annulus::store
