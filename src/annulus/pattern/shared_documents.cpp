#include "annulus/pattern/shared_documents.hpp"

#include <algorithm>

namespace annulus::pattern {

std::vector<SharedPiece> shared_pieces(const Documents& documents, const Partition& partition) {
  std::vector<SharedPiece> pieces;
  for (std::size_t p = 0; p < partition.size(); ++p) {
    for (const Interval& rows : partition[p].intervals()) {
      // Only the first and the last document of an interval can reach beyond the interval.
      const Interval first = document_of(documents, rows.begin), last = document_of(documents, rows.end - 1);
      if (first.begin < rows.begin || first.end > rows.end) {
        pieces.push_back({first, core::intersect(first, rows), Index(p)});
      }
      if (last != first && last.end > rows.end) pieces.push_back({last, core::intersect(last, rows), Index(p)});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const SharedPiece& a, const SharedPiece& b) { return a.rows.begin < b.rows.begin; });
  return pieces;
}

std::optional<Interval> document_out_of_order(const std::vector<SharedPiece>& pieces) {
  const auto found =
      std::adjacent_find(pieces.begin(), pieces.end(), [](const SharedPiece& below, const SharedPiece& above) {
        return below.document == above.document && below.rank >= above.rank;
      });
  if (found == pieces.end()) return std::nullopt;
  return found->document;
}

}  // namespace annulus::pattern
