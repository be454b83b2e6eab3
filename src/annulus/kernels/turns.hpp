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

/// True if two lists have a row in common. Worked example: 1 5 9 13 and 3 6 9 have row 9 in common, 1 5 9 13 and 3 7 11
/// have none.
bool have_common_row(const StridedRows& a, const StridedRows& b);

/// The rows that copies write: written[a][i] are the rows of array a that copy i writes.
using WrittenRows = std::vector<std::vector<StridedRows>>;

/// Returns in which launch ("turn") 0, 1, ... each of `count` copies runs. If no earlier copy of the list writes a row
/// that a copy writes, this copy runs in launch 0, otherwise one launch after the latest of these earlier copies. So
/// copies of one launch write no common row, and copies that write a common row keep their order. Worked example, one
/// array, copies that write rows 1 3 5, rows 3 4 and rows 0 2: the turns are 0, 1, 0.
std::vector<int> turns_of(std::size_t count, const WrittenRows& written);

}  // namespace annulus::kernels
