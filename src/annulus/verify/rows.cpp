#include "annulus/verify/input.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "annulus/core/random.hpp"

namespace annulus::verify {
namespace {

/// Rows at which something changes: the ends of the sequence, of documents and of segments, and borders of windows.
std::vector<Index> border_rows(const kernels::ReferencePattern& pattern, Index sequence) {
  std::vector<Index> rows{0, sequence - 1};
  for (std::size_t d = 0; d + 1 < pattern.documents.size(); ++d) {
    const Interval document{pattern.documents[d], pattern.documents[d + 1]};
    if (document.empty()) continue;
    rows.insert(rows.end(), {document.begin, document.end - 1});
    for (const kernels::ReferencePair& pair : pattern.pairs) {
      if (pair.window) {  // the last row with row 0 in its window, the next row, and the first row that only some see
        const auto& [left, right, first, mirrored] = *pair.window;
        const Index end = left < document.size() / pair.dilation ? left * pair.dilation + 1 : document.size();
        for (const Index row : {end - 1, end, first}) {
          if (row < document.size()) rows.push_back(document.begin + row);
        }
        continue;
      }
      if (pair.segment <= 0 || pair.segment >= document.size()) continue;
      const Index last = document.begin + (document.size() - 1) / pair.segment * pair.segment;
      for (const Index begin : {document.begin + pair.segment, last}) rows.insert(rows.end(), {begin - 1, begin});
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// The rows in `range` that exist: those in documents that are not gaps.
std::vector<Interval> existing_rows(const kernels::ReferencePattern& pattern, Interval range) {
  if (pattern.gaps.empty()) return {range};
  std::vector<Interval> there;
  for (std::size_t d = 0; d + 1 < pattern.documents.size(); ++d) {
    if (std::binary_search(pattern.gaps.begin(), pattern.gaps.end(), Index(d))) continue;
    const Interval part{std::max(pattern.documents[d], range.begin), std::min(pattern.documents[d + 1], range.end)};
    if (part.begin < part.end) there.push_back(part);
  }
  return there;
}

/// Chooses `count` rows of `range`. `have_numbers`: true if these are rows of the sequence, so that rows in gaps do not
/// exist.
std::vector<Index> sample_range(const VerifyInput& input, Interval range, Index count, bool have_numbers = true) {
  count = std::min(count, range.size());
  if (count == range.size()) {  // takes all rows, because random draws would be slow, and omit rows that do not exist
    std::vector<Index> all(std::size_t(count), 0);
    std::iota(all.begin(), all.end(), range.begin);
    return all;
  }
  const std::vector<Interval> there = have_numbers ? existing_rows(input.pattern, range) : std::vector<Interval>{range};
  Index existing = 0;
  for (const Interval& document : there) existing += document.size();
  std::vector<Index> borders = border_rows(input.pattern, input.shape.sequence);
  if (range.size() != input.shape.sequence) {
    std::erase_if(borders, [&](Index row) { return row <= range.begin || row + 1 >= range.end; });
    borders.insert(borders.begin(), range.begin);
    if (range.size() > 1) borders.push_back(range.end - 1);
  }
  const Index taken = std::min(Index(borders.size()), std::max<Index>(1, count / 2));
  std::set<Index> rows;
  // Takes border rows at equal distances in their list, always the first, and the last if more than one is taken.
  for (Index i = 0; i < taken; ++i) {
    rows.insert(borders[std::size_t(taken == 1 ? 0 : i * (Index(borders.size()) - 1) / (taken - 1))]);
  }
  for (Index i = 0; Index(rows.size()) < count; ++i) {
    // After many draws, if the drawn row is chosen already, takes the next row that is not chosen.
    const std::uint64_t bits = core::random_bits(1, core::TensorId::q, i);
    Index row = existing > 0 ? core::row_at(there, Index(bits % std::uint64_t(existing)))
                             : range.begin + Index(bits % std::uint64_t(range.size()));
    while (i > 8 * count && rows.contains(row)) row = row + 1 < range.end ? row + 1 : range.begin;
    rows.insert(row);
  }
  return {rows.begin(), rows.end()};
}

}  // namespace

SampledRows sample_rows(const VerifyInput& input, Index count) {
  const Interval keys{0, input.shape.sequence}, queries{input.first_query, input.first_query + input.queries};
  SampledRows rows{{}, sample_range(input, keys, count)};
  if (!input.has_query_rows) {
    rows.queries = sample_range(input, {0, input.queries}, count, false);
  } else if (input.queries == keys.size()) {
    rows.queries = rows.keys;
  } else {
    rows.queries = sample_range(input, queries, count);
    for (Index& row : rows.queries) row -= input.first_query;
  }
  return rows;
}

std::vector<Index> own_share(const std::vector<Index>& rows, int rank, int ranks) {
  const Index pack = std::clamp<Index>(Index(rows.size()) / (4 * ranks), 1, 32);
  std::vector<Index> mine;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (Index(i) / pack % ranks == rank) mine.push_back(rows[i]);
  }
  return mine;
}

}  // namespace annulus::verify
