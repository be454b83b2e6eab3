// Decides which copies of rows may run at the same time, and which must wait for each other.
#pragma once

#include <vector>

#include "annulus/kernels/gather.hpp"

namespace annulus::kernels {

/// `count` rows: first, first + stride, ...
struct StridedRows {
  core::Index first = 0;
  core::Index stride = 1;
  core::Index count = 0;
};

/// True if two lists have a row in common. Worked example: 1 5 9 13 and 3 6 9 have one, 1 5 9 13 and 3 7 11 have none.
bool have_common_row(const StridedRows& a, const StridedRows& b);

/// The rows that copies write: written[a][i] are the rows of array a that copy i writes.
using WrittenRows = std::vector<std::vector<StridedRows>>;

/// Returns in which launch ("turn") 0, 1, ... each of `count` copies runs. A copy runs in launch 0, or one launch after
/// the latest of the earlier copies that write one of its rows. So copies of one launch write no common row, and copies
/// that write a common row keep their order. Worked example, one array: rows 1 3 5, rows 3 4, rows 0 2: turns 0, 1, 0.
std::vector<int> turns_of(std::size_t count, const WrittenRows& written);

}  // namespace annulus::kernels
