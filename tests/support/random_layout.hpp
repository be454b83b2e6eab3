// Random patterns with awkward sizes, described for the pattern room and for the reference.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "annulus/kernels/reference.hpp"
#include "annulus/pattern/items.hpp"

namespace annulus::test {

using core::Index;

/// A pattern over n rows.
struct RandomLayout {
  Index n = 1;
  pattern::Layout layout;
};

/// A layout with longnet semantics over one document of n rows, and with as many key/value heads as heads.
inline pattern::Layout longnet_layout(const std::vector<pattern::Pair>& pairs, bool causal, Index n, Index heads) {
  pattern::Layout layout;
  layout.pattern.pairs = pairs;
  layout.pattern.causal = causal;
  layout.documents.assign(1, 0);
  layout.documents.push_back(n);
  layout.heads = layout.kv_heads = heads;
  return layout;
}

/// Describes a layout to the reference.
inline kernels::ReferencePattern reference_pattern(const pattern::Layout& layout, double scale = 1) {
  kernels::ReferencePattern words;
  words.semantics = kernels::ReferenceSemantics(int(layout.pattern.semantics));
  words.pairs.clear();
  for (const pattern::Pair& pair : layout.pattern.pairs) {
    words.pairs.push_back({pair.segment, pair.dilation});
    if (pair.window) words.pairs.back().window = {pair.window->left, pair.window->right, pair.window->first};
  }
  words.causal = layout.pattern.causal;
  words.scale = scale;
  words.group_scale = layout.pattern.group_scale;
  words.documents.assign(layout.documents.begin(), layout.documents.end());
  words.gaps = layout.documents.gaps;
  return words;
}

/// torchscale requires that the dilation divides the segment, unless the document is no longer than the segment. So
/// this function rounds segments up to multiples of the dilation. It does not change patterns of other semantics.
inline pattern::Pattern without_displacement(pattern::Pattern pattern) {
  if (pattern.semantics != pattern::Semantics::torchscale) return pattern;
  for (pattern::Pair& pair : pattern.pairs) pair.segment = core::ceil_div(pair.segment, pair.dilation) * pair.dilation;
  return pattern;
}

/// A random window: on each side 0 to n + 3 rows, which may be more than there are. With dilation 1 the window often
/// also has first rows.
inline pattern::Window draw_window(std::mt19937_64& random, Index n, Index dilation) {
  const auto draw = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  const auto limit = [&] { return draw(0, 3) == 0 ? draw(0, n + 3) : draw(0, n / (2 * dilation) + 1); };
  return {limit(), limit(), dilation == 1 && draw(0, 1) == 0 ? draw(1, n / 2 + 2) : 0};
}

/// Draws everything: n (also 1), heads and GQA groups, 1-3 pairs (some have w > n, r > w, `all` or a window), 1-4
/// documents (some are empty or gaps).
inline RandomLayout draw_layout(std::mt19937_64& random, Index largest_n) {
  const auto draw = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  RandomLayout drawn;
  drawn.n = draw(1, largest_n);
  pattern::Layout& layout = drawn.layout;
  layout.kv_heads = draw(1, 3);
  layout.heads = layout.kv_heads * draw(1, 3);
  layout.pattern.semantics =
      pattern::semantics_table[std::size_t(draw(0, Index(pattern::semantics_table.size()) - 1))].value;
  layout.pattern.causal = draw(0, 1) == 1;
  const Index pairs =
      layout.pattern.semantics == pattern::Semantics::grouped ? draw(1, std::min<Index>(3, layout.heads)) : draw(1, 3);
  layout.pattern.pairs.clear();
  for (Index i = 0; i < pairs; ++i) {
    const Index segment = draw(0, 3) == 0 ? pattern::whole_document : draw(1, drawn.n + 5);
    layout.pattern.pairs.push_back({segment, draw(0, 2) == 0 ? 1 : draw(1, 9)});
    // A third of the pairs are windows. They have a generator of their own, so that they do not change the other draws.
    pattern::Pair& pair = layout.pattern.pairs.back();
    std::mt19937_64 own(std::uint64_t(drawn.n * 1000003 + pair.segment * 1009 + pair.dilation * 31 + i));
    if (layout.pattern.semantics == pattern::Semantics::torchscale || own() % 3 > 0) continue;
    pair.segment = pattern::whole_document;
    pair.window = draw_window(own, drawn.n, pair.dilation);
  }
  layout.pattern = without_displacement(layout.pattern);
  layout.documents = {0, drawn.n};
  for (Index cuts = draw(0, 3); cuts > 0; --cuts) layout.documents.push_back(draw(0, drawn.n));
  std::sort(layout.documents.begin(), layout.documents.end());
  // A fifth of the documents are gaps. Like windows, they have a generator of their own.
  for (std::size_t d = 0; d + 1 < layout.documents.size(); ++d) {
    std::mt19937_64 own(std::uint64_t(layout.documents[d] * 1000003 + layout.documents[d + 1] * 1009 + Index(d)));
    if (own() % 5 == 0) layout.documents.gaps.push_back(Index(d));
  }
  return drawn;
}

/// Describes what was drawn, for the message of a failing test.
inline std::string describe(const RandomLayout& drawn) {
  const pattern::Layout& layout = drawn.layout;
  std::string text = "n " + std::to_string(drawn.n) + ", H " + std::to_string(layout.heads) + "/" +
                     std::to_string(layout.kv_heads) + ", " + std::string(name_of(layout.pattern.semantics)) +
                     (layout.pattern.causal ? ", causal" : "") + ", pairs";
  for (const auto& pair : layout.pattern.pairs) {
    text += " (" + pattern::segment_text(pair) + ", " + std::to_string(pair.dilation) + ")";
  }
  text += ", documents";
  for (const Index border : layout.documents) text += " " + std::to_string(border);
  for (const Index gap : layout.documents.gaps) text += ", document " + std::to_string(gap) + " is a gap";
  return text;
}

}  // namespace annulus::test
