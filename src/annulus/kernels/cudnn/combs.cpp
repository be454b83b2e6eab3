#include "annulus/kernels/cudnn/combs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

namespace annulus::kernels::cudnn {
namespace {

using core::Band;
using core::Run;
using core::WorkItem;

// The most pieces of an item: runs of queries times runs of keys. A zigzag rank's queries and own keys have 4 pieces.
// With `block_cyclic` there are hundreds of pieces, each too small to be worth a call.
constexpr Index most_pieces = 16;
// The most segments in a call. CUDA allows only 65,535 blocks in two of the three directions of a grid.
constexpr Index most_segments = Index(1) << 15;
// joined() tries to add a piece (or a line of pieces) to at most this many of its latest results.
constexpr std::size_t most_open = 8;

/// Calls visit(piece) for each pair of a run of queries and a run of keys if some of the queries see some of the keys.
/// A piece leaves out queries that see none of its keys, and keys that none of its queries sees. Returns false if the
/// band hides keys that a call cannot hide.
template <class Visit>
bool for_each_piece(const core::WorkList& work, const WorkItem& item, const Visit& visit) {
  for (Index a = 0; a < item.query.runs; ++a) {
    for (Index b = 0; b < item.key.runs; ++b) {
      Run query = work.runs[std::size_t(item.query.first_run + a)];
      Run key = work.runs[std::size_t(item.key.first_run + b)];
      std::optional<Index> seen;
      const Index least = query.t - (key.t + key.count - 1), most = query.t + query.count - 1 - key.t;
      if (most < -item.band.right || least > item.band.left) continue;
      if (most > item.band.left) return false;
      if (least < -item.band.right) {
        key.t -= item.band.right;  // with these comb indices, the band is Band::upto
        const Index hidden = std::max<Index>(0, key.t - query.t);
        query = {query.t + hidden, query.row + hidden * query.stride, query.stride, query.count - hidden};
        key.count = std::min(key.count, query.t + query.count - key.t);
        if (key.t + key.count - 1 > query.t) seen = query.t - key.t;
      }
      if (query.count <= 0 || key.count <= 0) continue;
      StridedCall piece;
      piece.heads = item.head_count;
      piece.query = {query.row, query.count > 1 ? query.stride : 1, query.count, 0};
      piece.key = {key.row, key.count > 1 ? key.stride : 1, key.count, 0};
      piece.head_first = item.head_first;
      piece.head_stride = item.head_count > 1 ? item.head_stride : 1;
      piece.kv_head = item.kv_head;
      piece.seen = seen;
      visit(piece);
    }
  }
  return true;
}

/// What calls must have in common so that they can become one call with more rows or heads.
auto shape_of(const StridedCall& call) {
  return std::tuple(call.query.count, call.query.stride, call.key.count, call.key.stride, call.heads,
                    call.heads > 1 ? call.head_stride : 0, call.seen);
}

/// Adds a piece to `line` as one more key/value head of the same segment. Returns false if the piece does not fit.
bool add_group(StridedCall& line, const StridedCall& piece) {
  if (shape_of(line) != shape_of(piece) || line.query.first != piece.query.first) return false;
  const Index heads = piece.head_first - line.query_head(line.groups - 1, 0);
  const Index kv = piece.kv_head - (line.kv_head + (line.groups - 1) * line.next_kv_head);
  const Index rows = piece.key.first - line.key_row(0, line.groups - 1, 0);
  if (heads <= 0 || kv < 0 || rows < 0 || kv + rows == 0 || heads % line.heads != 0) return false;
  const Index head_stride = heads / line.heads;
  if ((line.groups > 1 || line.heads > 1) && head_stride != line.head_stride) return false;
  if (line.groups > 1 && (kv != line.next_kv_head || rows != line.next_key_row)) return false;
  line.head_stride = head_stride;
  line.next_kv_head = kv;
  line.next_key_row = rows;
  line.groups += 1;
  return true;
}

/// Adds a line (pieces that add_group() has joined) to `call` as one more segment. Returns false if the line does not
/// fit.
bool add_segment(StridedCall& call, const StridedCall& line) {
  const auto heads_of = [](const StridedCall& c) {
    return std::tuple(c.groups, c.head_first, c.head_stride, c.kv_head, c.next_kv_head, c.next_key_row);
  };
  if (shape_of(call) != shape_of(line) || heads_of(call) != heads_of(line)) return false;
  const Index queries = line.query.first - call.query.row(call.segments - 1, 0);
  const Index keys = line.key.first - call.key.row(call.segments - 1, 0);
  if (queries <= 0 || keys <= 0 || call.segments == most_segments) return false;
  if (call.segments > 1 && (queries != call.query.next || keys != call.key.next)) return false;
  call.query.next = queries;
  call.key.next = keys;
  call.segments += 1;
  return true;
}

/// Adds each of `parts` in turn, with add(), to one of the last most_open results. A part that fits none of them begins
/// a new result.
template <class Add>
std::vector<StridedCall> joined(const std::vector<StridedCall>& parts, const Add& add) {
  std::vector<StridedCall> made;
  for (const StridedCall& part : parts) {
    const auto begin = made.size() > most_open ? made.end() - std::ptrdiff_t(most_open) : made.begin();
    if (std::none_of(begin, made.end(), [&](StridedCall& open) { return add(open, part); })) made.push_back(part);
  }
  return made;
}

}  // namespace

CutList cut_into_calls(const core::WorkList& work) {
  CutList cut;
  std::vector<StridedCall> pieces;
  const auto leave = [&](const WorkItem& item, std::string reason) {
    if (cut.rest.items.empty()) cut.why_rest = std::move(reason);
    cut.rest.items.push_back(item);
  };
  for (const WorkItem& item : work.items) {
    if (item.query.runs * item.key.runs > most_pieces) {
      leave(item, fmt::format("rows in {} x {} pieces", item.query.runs, item.key.runs));
      continue;
    }
    const std::size_t before = pieces.size();
    if (!for_each_piece(work, item, [&](const StridedCall& piece) { pieces.push_back(piece); })) {
      pieces.resize(before);
      leave(item, "a band that is neither all nor causal, as windows have");
    }
  }
  if (!cut.rest.items.empty()) cut.rest.runs = work.runs;
  std::stable_sort(pieces.begin(), pieces.end(), [](const StridedCall& a, const StridedCall& b) {
    return std::tuple(shape_of(a), a.query.first, a.head_first) < std::tuple(shape_of(b), b.query.first, b.head_first);
  });
  std::vector<StridedCall> lines = joined(pieces, add_group);
  std::stable_sort(lines.begin(), lines.end(), [](const StridedCall& a, const StridedCall& b) {
    return std::tuple(shape_of(a), a.head_first, a.query.first) < std::tuple(shape_of(b), b.head_first, b.query.first);
  });
  cut.calls = joined(lines, add_segment);
  return cut;
}

core::WorkList list_of(const StridedCall& call) {
  core::WorkList list;
  for (Index segment = 0; segment < call.segments; ++segment) {
    const SegmentRows &query = call.query, &key = call.key;
    const Index queries = Index(list.runs.size());
    list.runs.push_back({call.seen.value_or(0), query.row(segment, 0), query.stride, query.count});
    for (Index group = 0; group < call.groups; ++group) {
      const Index keys = Index(list.runs.size());
      list.runs.push_back({0, call.key_row(segment, group, 0), key.stride, key.count});
      list.items.push_back({{queries, 1, query.count},
                            {keys, 1, key.count},
                            call.kv_head + group * call.next_kv_head,
                            call.query_head(group, 0),
                            call.head_stride,
                            call.heads,
                            call.seen ? Band::upto : Band::all});
    }
  }
  return list;
}

}  // namespace annulus::kernels::cudnn
