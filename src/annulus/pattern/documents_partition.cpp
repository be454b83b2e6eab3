#include "annulus/pattern/documents_partition.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "annulus/pattern/document_cut.hpp"

namespace annulus::pattern {
namespace {

constexpr Index grains = 32;      // documents with at most F / grains of work are dealt in runs
constexpr Index allowances = 16;  // a rank may exceed F by F / allowances; beyond that a document is cut

struct Document {
  Interval rows;
  Count work = 0;
};

using DocumentIndices = std::vector<std::size_t>;  // indices of some documents

/// Deals documents to ranks. If `apart`, light documents (is_light(): little work per row) are dealt before all others.
/// share_ is the fair share F of documents_partition.hpp.
class Dealer {
 public:
  Dealer(const std::vector<Document>& documents, int ranks, bool apart)
      : documents_(documents), ranks_(ranks), parts_(documents.size()), loads_(std::size_t(ranks)) {
    for (const Document& one : documents) total_ += one.work, rows_ += one.rows.size();
    share_ = (total_ + ranks - 1) / ranks;
    grain_ = share_ / grains;
    DocumentIndices light, longer, large, small;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      (apart && is_light(documents[d]) ? light
       : documents[d].work > share_    ? longer
       : documents[d].work > grain_    ? large
                                       : small)
          .push_back(d);
    }
    deal_runs(light, even_rows(light), [&](std::size_t d) { return Count(documents_[d].rows.size()); });
    cut(longer, work(large) + work(small));
    deal_largest_first(std::move(large));
    deal_runs(small, room_below_level(work(small)), [&](std::size_t d) { return documents_[d].work; });
  }

  Partition partition(const KeptCounts& kept, bool causal) const {
    std::vector<std::vector<Interval>> rows(loads_.size());
    for (std::size_t d = 0; d < documents_.size(); ++d) cut_document(kept, causal, documents_[d].rows, parts_[d], rows);
    Partition partition;
    for (const auto& intervals : rows) partition.push_back(joined(intervals));
    return partition;
  }

  /// Returns how bad the worst rank is: its work divided by F or its rows by twice the mean, whichever is larger.
  double imbalance(const Partition& partition) const {
    double worst = double(*std::max_element(loads_.begin(), loads_.end())) / double(share_);
    for (const StoredRows& one : partition) {
      worst = std::max(worst, double(one.count()) * double(ranks_) / (2 * double(rows_)));
    }
    return worst;
  }

 private:
  bool is_light(const Document& one) const {
    return one.work <= share_ && one.work * rows_ <= total_ * one.rows.size();
  }
  Count work(const DocumentIndices& some) const {
    return std::accumulate(some.begin(), some.end(), Count(0),
                           [&](Count sum, std::size_t d) { return sum + documents_[d].work; });
  }
  Count room(Index rank) const { return std::max<Count>(0, share_ - loads_[std::size_t(rank)]); }

  void give(std::size_t d, Index rank, Count work) {
    parts_[d].push_back({rank, work});
    loads_[std::size_t(rank)] += work;
  }

  std::vector<Count> even_rows(const DocumentIndices& some) const {
    Index rows = 0;
    for (const std::size_t d : some) rows += documents_[d].rows.size();
    std::vector<Count> shares;
    for (Index p = 0; p < ranks_; ++p) shares.push_back(core::even_part(rows, ranks_, p).size());
    return shares;
  }

  /// Returns how much work each rank may take until its work reaches a common level. The level is such that all ranks
  /// together may take `work`.
  std::vector<Count> room_below_level(Count work) const {
    std::vector<Count> sorted = loads_, shares;
    std::sort(sorted.begin(), sorted.end());
    Count work_below = sorted.front(), level = 0;
    for (std::size_t k = 1; k <= sorted.size(); ++k) {
      level = (work_below + work + Count(k) - 1) / Count(k);
      if (k == sorted.size() || level <= sorted[k]) break;
      work_below += sorted[k];
    }
    for (const Count load : loads_) shares.push_back(std::max<Count>(0, level - load));
    return shares;
  }

  /// Deals documents in the order of the sequence; rank p's share is shares[p]. Each document goes to the rank in whose
  /// share its middle lies. size(d): size of document d in the unit of the shares, rows or work.
  template <class Size>
  void deal_runs(const DocumentIndices& some, const std::vector<Count>& shares, Size&& size) {
    Index rank = 0;
    Count end = shares.front(), dealt = 0;
    for (const std::size_t d : some) {
      while (rank + 1 < ranks_ && 2 * dealt + size(d) >= 2 * end) end += shares[std::size_t(++rank)];
      give(d, rank, documents_[d].work);
      dealt += size(d);
    }
  }

  /// Deals each document to the rank with the least work. If the document does not fit there, cuts it into parts for as
  /// few ranks as possible.
  void deal_largest_first(DocumentIndices some) {
    std::stable_sort(some.begin(), some.end(),
                     [&](std::size_t a, std::size_t b) { return documents_[a].work > documents_[b].work; });
    std::set<std::pair<Count, Index>> least;
    for (Index p = 0; p < ranks_; ++p) least.insert({loads_[std::size_t(p)], p});
    for (const std::size_t d : some) {
      Count left = documents_[d].work;
      std::vector<WorkPart> parts;
      const bool fits = least.begin()->first + left <= share_ + share_ / allowances;
      while (left > 0) {
        const Index rank = least.begin()->second;
        least.erase(least.begin());
        const bool all = fits || room(rank) == 0 || least.empty() || left - room(rank) <= grain_;  // no tiny parts
        parts.push_back({rank, all ? left : room(rank)});
        left -= parts.back().work;
      }
      std::sort(parts.begin(), parts.end(), [](const WorkPart& a, const WorkPart& b) { return a.rank < b.rank; });
      for (const WorkPart& part : parts) {
        give(d, part.rank, part.work);
        least.insert({loads_[std::size_t(part.rank)], part.rank});
      }
    }
  }

  /// Returns how many ranks, from `rank` on, are needed for this much work; a rest of at most grain_ does not count.
  Index ranks_needed(Index rank, Count work) const {
    Index needed = 1;
    for (; rank + 1 < ranks_ && work - room(rank) > grain_; ++rank, ++needed) work -= room(rank);
    return needed;
  }

  /// Fills one rank after another up to F. A document begins at the next rank if it then lies on fewer ranks. The rank
  /// before then has room left, for documents that are dealt later. `spare` is the work of these later documents; all
  /// ranks together keep at most this much room.
  void cut(const DocumentIndices& some, Count spare) {
    Index rank = 0;
    for (const std::size_t d : some) {
      const auto begins_on_next_rank = [&] {
        if (rank + 1 == ranks_ || room(rank) > spare) return false;
        return room(rank) == 0 || ranks_needed(rank + 1, documents_[d].work) < ranks_needed(rank, documents_[d].work);
      };
      for (; begins_on_next_rank(); ++rank) spare -= room(rank);
      for (Count left = documents_[d].work; left > 0;) {
        const Count most = rank + 1 == ranks_ ? left : std::min(left, room(rank));
        const Count part = left - most <= grain_ ? left : most;  // no tiny parts
        if (part > 0) give(d, rank, part);
        left -= part;
        if (left > 0) ++rank;
      }
    }
  }

  const std::vector<Document>& documents_;
  const Index ranks_;
  std::vector<std::vector<WorkPart>> parts_;  // of every document
  std::vector<Count> loads_;                  // work of every rank
  Count total_ = 0, share_ = 0, grain_ = 0;
  Index rows_ = 0;
};

}  // namespace

Partition documents_partition(const Layout& layout, int ranks) {
  const KeptCounts kept(layout);
  std::vector<Document> documents;
  for (std::size_t d = 0; d + 1 < layout.documents.size(); ++d) {
    const Interval rows{layout.documents[d], layout.documents[d + 1]};
    if (!rows.empty()) documents.push_back({rows, work_of(kept, rows)});
  }
  const bool causal = layout.pattern.causal;
  if (documents.size() <= 1) {
    return causal ? zigzag_partition(layout.documents, ranks) : contiguous_partition(layout.documents.back(), ranks);
  }
  const Dealer together(documents, ranks, false);
  Partition partition = together.partition(kept, causal);
  const double imbalance = together.imbalance(partition);
  if (imbalance <= 1 + 1.0 / allowances) return partition;
  const Dealer apart(documents, ranks, true);
  Partition other = apart.partition(kept, causal);
  return apart.imbalance(other) < imbalance ? other : partition;
}

}  // namespace annulus::pattern
