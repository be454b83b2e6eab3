#include "annulus/pattern/document_cut.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

class Cutter {
 public:
  Cutter(const KeptCounts& kept, bool causal, Interval document)
      : kept_(kept), causal_(causal), document_(document), last_(causal ? document.size() / 2 : document.size()) {}

  /// Returns the smallest m >= `from` for which the document's first m rows (if causal, its first m and its last m
  /// rows) have at least this much work; last_ if there is no such m. Most distances between neighbouring cuts are
  /// alike. So the search first tries the distance of the cut before, and then widens.
  Index cut(Count work, Index from) {
    Index enough = std::min(last_, from + std::max<Index>(step_, 1)), below = from - 1;
    for (Index wider = 1; enough < last_ && taken(enough) < work; wider *= 2) {
      below = enough;
      enough = std::min(last_, enough + wider);
    }
    for (Index wider = 1; enough - below > wider; wider *= 2) {
      if (taken(enough - wider) < work) {
        below = enough - wider;
        break;
      }
      enough -= wider;
    }
    while (enough - below > 1) {
      const Index middle = below + (enough - below) / 2;
      (taken(middle) < work ? below : enough) = middle;
    }
    step_ = enough - from;
    return enough;
  }

 private:
  Count taken(Index rows) const {
    const Count begin = work_of(kept_, {document_.begin, document_.begin + rows});
    return causal_ ? begin + work_of(kept_, {document_.end - rows, document_.end}) : begin;
  }

  const KeptCounts& kept_;
  const bool causal_;
  const Interval document_;
  const Index last_;
  Index step_ = 0;  // distance between the last cut and the cut before it
};

}  // namespace

void cut_document(const KeptCounts& kept, bool causal, Interval document, const std::vector<WorkPart>& parts,
                  std::vector<std::vector<Interval>>& rows) {
  Cutter cutter(kept, causal, document);
  std::vector<Index> cuts{0};
  Count work = 0;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) cuts.push_back(cutter.cut(work += parts[i].work, cuts.back()));
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    rows[std::size_t(parts[i].rank)].push_back({document.begin + cuts[i], document.begin + cuts[i + 1]});
  }
  const Index end = causal ? document.end - cuts.back() : document.end;
  rows[std::size_t(parts.back().rank)].push_back({document.begin + cuts.back(), end});
  for (std::size_t i = parts.size() - 1; causal && i-- > 0;) {
    rows[std::size_t(parts[i].rank)].push_back({document.end - cuts[i + 1], document.end - cuts[i]});
  }
}

}  // namespace annulus::pattern
