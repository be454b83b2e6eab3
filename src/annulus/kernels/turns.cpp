#include "annulus/kernels/turns.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace annulus::kernels {
namespace {

using core::Index;

Index last(const StridedRows& rows) { return rows.first + (rows.count - 1) * rows.stride; }

/// Appends the pair {later, earlier} of indices in `lists` for every two lists that have a row in common.
void add_meetings(const std::vector<StridedRows>& lists, std::vector<std::pair<std::size_t, std::size_t>>& meetings) {
  std::vector<std::size_t> by_first(lists.size());
  std::iota(by_first.begin(), by_first.end(), std::size_t(0));
  std::sort(by_first.begin(), by_first.end(),
            [&](std::size_t a, std::size_t b) { return lists[a].first < lists[b].first; });
  std::vector<std::size_t> reaching;  // lists that begin before list `one` and reach its first row
  for (const std::size_t one : by_first) {
    if (lists[one].count == 0) continue;
    std::erase_if(reaching, [&](std::size_t other) { return last(lists[other]) < lists[one].first; });
    for (const std::size_t other : reaching) {
      if (have_common_row(lists[one], lists[other])) meetings.emplace_back(std::max(one, other), std::min(one, other));
    }
    reaching.push_back(one);
  }
}

}  // namespace

bool have_common_row(const StridedRows& a, const StridedRows& b) {
  if (a.count == 0 || b.count == 0 || std::max(a.first, b.first) > std::min(last(a), last(b))) return false;
  const StridedRows& coarse = a.stride >= b.stride ? a : b;
  const StridedRows& fine = a.stride >= b.stride ? b : a;
  const Index apart = coarse.first - fine.first;
  if (coarse.stride % fine.stride == 0 && apart % fine.stride != 0) return false;  // decides nearly all cases
  if (apart % std::gcd(coarse.stride, fine.stride) != 0) return false;
  // If the lists had no ends, common rows would be lcm(strides) apart, which is `period` steps of `coarse`.
  const Index period = fine.stride / std::gcd(coarse.stride, fine.stride);
  const Index begin = core::ceil_div(std::max<Index>(0, fine.first - coarse.first), coarse.stride);
  for (Index i = begin; i < std::min(begin + period, coarse.count); ++i) {
    const Index row = coarse.first + i * coarse.stride;
    if (row > last(fine)) return false;
    if ((row - fine.first) % fine.stride == 0) return true;
  }
  return false;
}

std::vector<int> turns_of(std::size_t count, const WrittenRows& written) {
  std::vector<std::pair<std::size_t, std::size_t>> meetings;
  for (const std::vector<StridedRows>& lists : written) add_meetings(lists, meetings);
  std::sort(meetings.begin(), meetings.end());
  std::vector<int> turns(count, 0);
  for (const auto& [later, earlier] : meetings) turns[later] = std::max(turns[later], turns[earlier] + 1);
  return turns;
}

}  // namespace annulus::kernels
