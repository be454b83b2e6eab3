#include "annulus/pattern/parts.hpp"

#include "annulus/pattern/shared_documents.hpp"

namespace annulus::pattern {
namespace {

/// Returns `rows` without the intervals `cut`, which lie inside `rows`; both lists ascend.
std::vector<Interval> without(const std::vector<Interval>& rows, const std::vector<Interval>& cut) {
  std::vector<Interval> rest;
  auto next = cut.begin();
  for (Interval one : rows) {
    for (; next != cut.end() && next->end <= one.end; ++next) {
      rest.push_back({one.begin, next->begin});
      one.begin = next->end;
    }
    rest.push_back(one);
  }
  return rest;
}

/// Appends to second[rank] the rank's second piece of a document: the piece on the way back down through the ranks.
/// [begin, end) are all pieces of the document, ascending. If rows go back down, but the top rank has only one piece,
/// the second half of this piece counts as the top rank's second piece.
void add_second(const SharedPiece* begin, const SharedPiece* end, const CutGrid& grid,
                std::vector<std::vector<Interval>>& second) {
  const auto below = [](const SharedPiece& a, const SharedPiece& b) { return a.rank < b.rank; };
  const SharedPiece* const top = std::max_element(begin, end, below);
  const bool is_whole = top + 1 != end && top[1].rank != top->rank;
  if (is_whole) {
    const Index middle = grid.nearest(top->rows.begin + (top->rows.size() + 1) / 2);
    second[std::size_t(top->rank)].push_back({middle, top->rows.end});
  }
  for (const SharedPiece* one = top + 1; one < end; ++one) second[std::size_t(one->rank)].push_back(one->rows);
}

}  // namespace

std::optional<Partition> ordered_parts(const Documents& documents, const Partition& partition, const CutGrid& grid) {
  const std::vector<SharedPiece> pieces = shared_pieces(documents, partition);
  if (!document_out_of_order(pieces)) return partition;
  const std::size_t ranks = partition.size();
  std::vector<std::vector<Interval>> second(ranks);
  for (const SharedPiece *begin = pieces.data(), *pieces_end = begin + pieces.size(); begin < pieces_end;) {
    const SharedPiece* end = begin + 1;
    while (end < pieces_end && end->document == begin->document) ++end;
    add_second(begin, end, grid, second);
    begin = end;
  }
  Partition parts(2 * ranks);
  for (std::size_t p = 0; p < ranks; ++p) {
    parts[p] = StoredRows(partition[p], without(partition[p].intervals(), second[p]));
    parts[2 * ranks - 1 - p] = StoredRows(partition[p], second[p]);
  }
  if (document_out_of_order(shared_pieces(documents, parts))) return std::nullopt;
  return parts;
}

}  // namespace annulus::pattern
