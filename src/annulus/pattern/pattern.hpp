// The attention pattern says which query rows see which key rows. It consists of pairs, each with a segment length (or
// a window) and a dilation rate, and of the rule that gives each head its offset in a pair.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::pattern {

using core::Index;

/// The rule for the offset that query head h of H has in pair i, whose dilation is r.
///   longnet     h div ceil(H / r)   what LongNet's published code does, without its padding (the default)
///   paper       h mod r             what the LongNet paper says
///   grouped     i mod r             one group of heads per pair, group i uses only pair i (dilated-attention-pytorch)
///   torchscale  h div ceil(H / r)   what LongNet's published code does, with its padding (filled_keys.hpp)
enum class Semantics { longnet, paper, grouped, torchscale };

struct SemanticsEntry {
  Semantics value;
  std::string_view name;
  std::string_view description;
};
/// Every semantics with its name in the run file. The run file's parser, `list` and the tests all read this table.
inline constexpr std::array<SemanticsEntry, 4> semantics_table{{
    {Semantics::longnet, "longnet",
     "head h starts at offset h div ceil(H / r), every head in every pair (as LongNet's code torchscale, but without "
     "the zeros that it adds as keys)"},
    {Semantics::paper, "paper", "head h starts at offset h mod r, every head in every pair (the LongNet paper)"},
    {Semantics::grouped, "grouped",
     "pair i has its own group of heads, all at offset i mod r (dilated-attention-pytorch)"},
    {Semantics::torchscale, "torchscale",
     "longnet with torchscale's padding: without a causal mask, rows in a last segment that is not full also see its "
     "zeros (models trained with torchscale, Prov-GigaPath)"},
}};
std::string_view name_of(Semantics semantics);

/// The segment length for the word `all`: one segment holds the whole document.
inline constexpr Index whole_document = 0;

/// Through a pair that is a window, row x of a document sees the document's rows x - j r for whole numbers j with
/// -right <= j <= left, where r is the pair's dilation. Both limits are 0 or more. Heads have no offsets in a window:
/// all heads of the pair use all rows.
///
/// Worked example: causal, left 2, right 0, r = 3: row 10 sees rows 10, 7 and 4.
struct Window {
  Index left = 0;
  Index right = 0;
  Index first = 0;    ///< all rows also see the document's rows [0, first); no row counts twice; needs r = 1
  Index viewers = 0;  ///< rows [0, viewers) of the document see all its rows; mirrored() turns `first` into `viewers`
  bool operator==(const Window&) const = default;
};

/// A segment length w and a dilation rate r. w = whole_document means `all`; a pair with a window has this w, too.
struct Pair {
  Index segment = whole_document;
  Index dilation = 1;
  std::optional<Window> window = {};
  bool operator==(const Pair&) const = default;
};

/// Returns why the window of a pair is invalid; an empty text if it is valid, or if the pair has no window.
std::string why_no_window(Semantics semantics, const Pair& pair);

/// Returns a pair's entry in the list `segments` of a run file: "2048", "all", "{window: [3, 0], first: 4}".
std::string segment_text(const Pair& pair);

/// The attention pattern of a run. The defaults give dense causal attention.
struct Pattern {
  Semantics semantics = Semantics::longnet;
  std::vector<Pair> pairs{Pair{}};
  bool causal = true;
  bool group_scale = false;  ///< grouped only: divide the output by the number of pairs

  /// The output is multiplied by this factor, and so are the gradients that flow back through the output.
  double output_scale() const { return group_scale ? 1.0 / double(pairs.size()) : 1.0; }
  bool is_windows_alone() const {
    return std::all_of(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.window.has_value(); });
  }
};

/// The `count` query heads first, first + stride, ...
struct HeadSet {
  Index first = 0;
  Index stride = 1;
  Index count = 0;
  bool operator==(const HeadSet&) const = default;
};

/// Returns which of a problem's `heads` query heads use offset `offset` (0 <= offset < dilation) in pair `pair`. In a
/// window, all of the pair's heads use every offset.
/// Worked example: H = 4, r = 2, longnet: offset 0 -> heads 0, 1; offset 1 -> heads 2, 3. paper: 0 -> 0, 2; 1 -> 1, 3.
HeadSet heads_at_offset(const Pattern& pattern, Index pair, Index offset, Index heads);

/// The heads of `set` that lie in [range.begin, range.end).
HeadSet intersect(HeadSet set, core::Interval range);

/// Returns the key/value heads that query heads [query.begin, query.end) read, if `group` query heads share one
/// key/value head.
core::Interval heads_read(core::Interval query, Index group);

/// Returns the pattern with queries and keys exchanged: in the result, row p sees row x if x sees p in `pattern`. The
/// result has no causal mask. If `pattern` has a causal mask, left = 0 replaces the mask in windows. Nothing replaces
/// the mask in segments and for `viewers`. So in these, row p also sees earlier rows x, although x does not see p in
/// `pattern`.
Pattern mirrored(Pattern pattern);

/// Document boundaries 0 = d0 <= d1 <= ... = n; {0, n} for one document. Documents may have zero length. Some documents
/// may be gaps: their rows are neither queries nor keys, and what is stored in these rows is never read. Worked
/// example: rows 3 4 5 of 10 rows are a document, and rows 6 7 are another document: {0, 3, 6, 8, 10} with gaps {0, 3}.
struct Documents : std::vector<Index> {
  using std::vector<Index>::vector;
  std::vector<Index> gaps = {};  ///< indices of the documents that are gaps, ascending

  bool is_gap(Index document) const { return std::binary_search(gaps.begin(), gaps.end(), document); }
  Index count() const { return Index(size()) - 1 - Index(gaps.size()); }
  bool operator==(const Documents&) const = default;
};

/// Makes one document of each of these ascending, disjoint ranges. All other rows of the `sequence` rows are in gaps.
Documents documents_at(const std::vector<core::Interval>& ranges, Index sequence);
/// Returns the parts of `rows` that lie in gaps, ascending. No part is empty.
std::vector<core::Interval> in_gaps(const Documents& documents, core::Interval rows);
/// Returns how many rows of these ascending, disjoint intervals lie in gaps.
Index count_in_gaps(const Documents& documents, const std::vector<core::Interval>& rows);
/// Returns the rows of all documents that are no gaps, ascending, without the first `skipped` rows of each document.
std::vector<core::Interval> rows_without_first(const Documents& documents, Index skipped);

}  // namespace annulus::pattern
