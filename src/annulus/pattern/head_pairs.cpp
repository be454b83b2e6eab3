#include "annulus/pattern/head_pairs.hpp"

#include <algorithm>

namespace annulus::pattern {

core::HeadPairs head_pairs(const Layout& layout) {
  constexpr Index longer_than_any = Index(1) << 62;
  const Interval share = layout.query_heads();
  core::HeadPairs all;
  all.pairs = Index(layout.pattern.pairs.size());
  all.of.resize(std::size_t(share.size() * all.pairs));
  for (Index i = 0; i < all.pairs; ++i) {
    const Pair& pair = layout.pattern.pairs[std::size_t(i)];
    const Index segment = pair.segment == whole_document ? longer_than_any : pair.segment;
    core::HeadPair head_pair{segment, pair.dilation, -1};
    if (pair.window) {
      const Index most = layout.documents.back() / pair.dilation;  // a larger limit adds no row
      head_pair.is_window = true;
      head_pair.left = std::min(pair.window->left, most);
      head_pair.right = std::min(pair.window->right, most);
      head_pair.first = pair.window->first;
    }
    for (Index h = 0; h < share.size(); ++h) all.of[std::size_t(h * all.pairs + i)] = head_pair;
    for (const UsedOffset& used : used_offsets(layout.pattern, i, layout.heads, 1)) {
      const HeadSet heads = intersect(used.heads, share);
      for (Index n = 0; n < heads.count; ++n) {
        const Index h = heads.first + n * heads.stride - share.begin;
        all.of[std::size_t(h * all.pairs + i)].offset = used.offset;
      }
    }
  }
  return all;
}

}  // namespace annulus::pattern
