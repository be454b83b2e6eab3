#include "annulus/store/row_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "annulus/core/error.hpp"

namespace annulus::store {
namespace {

/// Joins all runs into one if they need no conversion and have no gaps between them, neither in the file nor in memory.
RowRuns joined(RowRuns runs, const RowLayout& layout) {
  const Index in_file = runs.numbers * layout.number_bytes();
  const Index in_memory = runs.numbers * Index(core::bytes_of(layout.memory));
  if (layout.type == layout.memory && runs.file_step == in_file && runs.memory_step == in_memory) {
    runs.numbers *= runs.count;
    runs.count = 1;
  }
  return runs;
}

/// The rows `part` of a piece, counted from the piece's first row.
core::RowPiece taken(core::RowPiece piece, core::Interval part) {
  piece.first += part.begin * piece.stride;
  piece.memory = static_cast<std::byte*>(piece.memory) + part.begin * piece.pitch;
  piece.count = part.size();
  return piece;
}

/// Number of rows of a piece that come before row `row` of the tensor.
Index rows_before(const core::RowPiece& piece, Index row) {
  return row <= piece.first ? 0 : std::min(piece.count, core::ceil_div(row - piece.first, piece.stride));
}

void fill_with_zeros(const RowLayout& layout, const core::RowPiece& piece) {
  const Index head_bytes = layout.head_numbers() * Index(core::bytes_of(layout.memory));
  for (Index i = 0; i < piece.count; ++i) {
    for (Index h = 0; h < piece.heads.size(); ++h) {
      std::memset(static_cast<std::byte*>(piece.memory) + i * piece.pitch + h * piece.head_pitch, 0,
                  std::size_t(head_bytes));
    }
  }
}

void append_runs(const RowLayout& layout, const core::RowPiece& piece, std::vector<RowRuns>& all) {
  const Index sequence = layout.extents[1], heads = layout.heads(), numbers = layout.head_numbers();
  const Index head_bytes = numbers * layout.number_bytes(),
              memory_head = numbers * Index(core::bytes_of(layout.memory));
  const bool by_rows = layout.order == core::AxisOrder::bshd;
  const bool side_by_side = by_rows && (piece.heads.size() == 1 || piece.head_pitch == memory_head);
  const Index row_bytes = by_rows ? heads * head_bytes : head_bytes;
  for (Index head = piece.heads.begin; head < piece.heads.end; head += side_by_side ? piece.heads.size() : 1) {
    const Index line = by_rows ? (piece.batch * sequence + piece.first) * heads + head
                               : (piece.batch * heads + head) * sequence + piece.first;
    RowRuns runs;
    runs.file = layout.offset + line * head_bytes;
    runs.file_step = piece.stride * row_bytes;
    runs.memory = static_cast<std::byte*>(piece.memory) + (head - piece.heads.begin) * piece.head_pitch;
    runs.memory_step = piece.pitch;
    runs.numbers = (side_by_side ? piece.heads.size() : 1) * numbers;
    runs.count = piece.count;
    runs.batch = piece.batch;
    runs.row = piece.first;
    runs.row_step = piece.stride;
    runs.head = head;
    all.push_back(joined(runs, layout));
  }
}

/// Calls visit() with the reads for `parts`: runs that for_each_read() looks at together, in file order.
void read_window(const std::vector<OneRun>& parts, Index number_bytes, Index gap,
                 const std::function<void(const ReadCall&)>& visit) {
  const auto end_of = [&](const OneRun& run) { return run.begin() + run.runs->numbers * number_bytes; };
  Index needed = 0, end = 0;
  for (const OneRun& run : parts) {
    needed += run.runs->numbers * number_bytes;
    end = std::max(end, end_of(run));
  }
  const Index begin = parts.front().begin();
  if (4 * needed >= end - begin) return visit({begin, end, parts});
  ReadCall call;
  for (const OneRun& run : parts) {
    if (!call.parts.empty() && run.begin() >= call.end + gap) {
      visit(call);
      call.parts.clear();
    }
    if (call.parts.empty()) call = {run.begin(), run.begin(), {}};
    call.end = std::max(call.end, end_of(run));
    call.parts.push_back(run);
  }
  visit(call);
}

}  // namespace

std::vector<core::RowPiece> in_entries(const core::RowPiece& piece, Index sequence) {
  std::vector<core::RowPiece> parts;
  for (Index begin = 0; begin < piece.count;) {
    const Index entry = (piece.first + begin * piece.stride) / sequence;
    const Index end = rows_before(piece, (entry + 1) * sequence);
    parts.push_back(taken(piece, {begin, end}));
    parts.back().batch += entry;
    parts.back().first -= entry * sequence;
    begin = end;
  }
  return parts;
}

std::vector<core::RowPiece> existing(const RowLayout& layout, const std::vector<core::RowPiece>& pieces) {
  if (layout.left_out.empty()) return pieces;
  std::vector<core::RowPiece> all;
  for (const core::RowPiece& piece : pieces) {
    const auto add = [&](core::Interval part) {
      if (!part.empty()) all.push_back(taken(piece, part));
    };
    const Index before = layout.is_left_out_by_entry ? piece.batch * layout.extents[1] : 0;
    Index done = 0;
    auto gap = std::partition_point(layout.left_out.begin(), layout.left_out.end(),
                                    [&](const core::Interval& one) { return one.end <= before + piece.first; });
    for (; gap != layout.left_out.end() && done < piece.count; ++gap) {
      const core::Interval inside{rows_before(piece, gap->begin - before), rows_before(piece, gap->end - before)};
      add({done, inside.begin});
      fill_with_zeros(layout, taken(piece, inside));
      done = inside.end;
    }
    add({done, piece.count});
  }
  return all;
}

std::vector<RowRuns> runs_of(const RowLayout& layout, const core::RowPiece& piece) {
  if (piece.count == 0 || piece.heads.empty()) return {};
  const Index last = piece.first + (piece.count - 1) * piece.stride;
  core::require(piece.batch >= 0 && piece.first >= 0 && piece.stride > 0 &&
                    last < (layout.extents[0] - piece.batch) * layout.extents[1] && piece.heads.begin >= 0 &&
                    piece.heads.end <= layout.heads(),
                [&] {
                  return fmt::format("{}: batch entry {}, rows {} to {}, heads [{}, {}) of ({})", layout.where,
                                     piece.batch, piece.first, last, piece.heads.begin, piece.heads.end,
                                     fmt::join(layout.extents, ", "));
                });
  std::vector<RowRuns> all;
  for (const core::RowPiece& one : in_entries(piece, layout.extents[1])) append_runs(layout, one, all);
  return all;
}

std::vector<std::vector<core::RowPiece>> groups_of(const RowLayout& layout, const std::vector<core::RowPiece>& pieces,
                                                   Index most_bytes) {
  std::vector<std::vector<core::RowPiece>> groups;
  Index room = 0;
  for (const core::RowPiece& piece : pieces) {
    const Index row_bytes = std::max<Index>(1, piece.heads.size() * layout.head_numbers() * layout.number_bytes());
    for (Index begin = 0; begin < piece.count;) {
      if (room < row_bytes) {
        groups.emplace_back();
        room = std::max(most_bytes, row_bytes);
      }
      const Index count = std::min(room / row_bytes, piece.count - begin);
      groups.back().push_back(taken(piece, {begin, begin + count}));
      room -= count * row_bytes;
      begin += count;
    }
  }
  return groups;
}

std::vector<OneRun> in_file_order(const std::vector<RowRuns>& runs) {
  std::vector<OneRun> all;
  for (const RowRuns& one : runs) {
    for (Index i = 0; i < one.count; ++i) all.push_back({&one, i});
  }
  std::sort(all.begin(), all.end(), [](const OneRun& a, const OneRun& b) { return a.begin() < b.begin(); });
  return all;
}

void for_each_read(const std::vector<RowRuns>& runs, Index number_bytes, Index window, Index gap,
                   const std::function<void(const ReadCall&)>& visit) {
  std::vector<Index> next(runs.size(), 0);
  std::vector<OneRun> parts;
  for (;;) {
    Index begin = INT64_MAX;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (next[r] < runs[r].count) begin = std::min(begin, runs[r].begin(next[r]));
    }
    if (begin == INT64_MAX) return;
    parts.clear();
    for (std::size_t r = 0; r < runs.size(); ++r) {
      for (Index& i = next[r]; i < runs[r].count && runs[r].begin(i) < begin + window; ++i)
        parts.push_back({&runs[r], i});
    }
    std::sort(parts.begin(), parts.end(), [](const OneRun& a, const OneRun& b) { return a.begin() < b.begin(); });
    read_window(parts, number_bytes, gap, visit);
  }
}

std::string index_text(const RowLayout& layout, const OneNumber& at) {
  return fmt::format("[{}]", fmt::join(per_axis<Index>(layout, {at.batch, at.row, at.head, at.number}), ", "));
}

std::string index_text(const RowLayout& layout, const OneRun& run, Index number) {
  const bool by_rows = layout.order == core::AxisOrder::bshd;
  const Index numbers = layout.head_numbers(),
              line = number / numbers;  // a joined run continues into the next rows
  const Index head = run.runs->head + (by_rows ? line : 0), row = run.runs->row + run.index * run.runs->row_step;
  return index_text(layout, OneNumber{run.runs->batch, row + (by_rows ? head / layout.heads() : line),
                                      head % layout.heads(), number % numbers});
}

}  // namespace annulus::store
