// Finds the bytes of a file that hold given rows of a tensor, and their positions in memory. Joins small reads of
// neighbouring bytes into one call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annulus/core/axes.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Index;

/// The numbers that may be read. finite_numbers: no NaN, no infinity, and no number that means "missing".
/// present_numbers: also NaN and infinity. any_numbers: all numbers (see RowLayout::allow()), for results and for
/// inputs that all ranks check afterwards.
enum class Wanted { finite_numbers, present_numbers, any_numbers };

/// Says how a tensor is stored in a file, which type it gets in memory, and which of its numbers may be read.
struct RowLayout {
  std::string where;           ///< for messages: "tokens.h5: dataset /q"
  Index offset = 0;            ///< position of the tensor's first byte in the file
  std::vector<Index> extents;  ///< (B, S, heads, numbers of a head), in this order, whatever the file's order is
  core::AxisOrder order = core::AxisOrder::bshd;
  core::DType type = core::DType::float32;
  core::DType memory = core::DType::float32;
  bool is_finite = true;    ///< reading NaN or infinity is an error
  MissingValues missing{};  ///< reading one of these numbers is an error
  std::size_t axes = 4;     ///< number of the dataset's axes. 4: all; 3: all but the last; 2: rows, heads; 1: rows
  std::vector<core::Interval> left_out{};  ///< rows that do not exist: InspectedFile::left_out
  bool is_left_out_by_entry = false;       ///< left_out counts rows over all entries: row S is row 0 of entry 1

  void allow(Wanted wanted) {
    if (wanted != Wanted::finite_numbers) is_finite = false;
    if (wanted != Wanted::any_numbers) return;
    // If rows do not exist, memory holds zeros for them after reading, so a later check cannot find a missing value 0.
    // So reading still refuses this value.
    std::erase_if(missing, [&](const MissingValue& one) { return left_out.empty() || one.value != 0; });
  }
  Index heads() const { return extents[2]; }
  Index head_numbers() const { return extents[3]; }
  Index number_bytes() const { return Index(core::bytes_of(type)); }
};

/// A piece's rows: `count` runs of `numbers` consecutive numbers, each run one step after the run before it.
struct RowRuns {
  Index file = 0;       ///< byte at which the first run begins
  Index file_step = 0;  ///< bytes from one run to the next in the file
  std::byte* memory = nullptr;
  Index memory_step = 0;  ///< bytes from one run to the next in memory
  Index numbers = 0;
  Index count = 0;
  // for messages: the indices of the first number, and the rows from one run to the next
  Index batch = 0, row = 0, row_step = 1, head = 0;

  Index begin(Index i) const { return file + i * file_step; }
};

/// Cuts a piece where batch entries end. An entry has `sequence` (S) rows, so row S of an entry is row 0 of the next.
/// Worked example with S = 5: rows 2, 4, 6 of entry 0 become rows 2 and 4 of entry 0, and row 1 of entry 1.
std::vector<core::RowPiece> in_entries(const core::RowPiece& piece, Index sequence);

/// Returns the pieces without the rows that do not exist (layout.left_out). Fills the memory of these rows with zeros.
std::vector<core::RowPiece> existing(const RowLayout& layout, const std::vector<core::RowPiece>& pieces);

/// Returns the runs of a piece. The piece may continue in the next entry, see in_entries(). Throws an internal error if
/// the tensor lacks a row or a head. Worked example: rows 1 and 3 of heads [0, 2) of a (1, 4, 2, 8) float32 tensor that
/// begins at byte 100. In order bshd these are 2 runs of 16 numbers, the first at byte 164, 128 bytes apart. In order
/// bhsd each head has 2 runs of 8 numbers, 64 bytes apart: the first run is at byte 132 for head 0 and at byte 260 for
/// head 1.
std::vector<RowRuns> runs_of(const RowLayout& layout, const core::RowPiece& piece);

/// Puts the pieces into groups, so that a rank can report to the watchdog between two groups. A group has at
/// most `most_bytes` in the file, or it is one row of one piece. Pieces are cut only where a group is full.
std::vector<std::vector<core::RowPiece>> groups_of(const RowLayout& layout, const std::vector<core::RowPiece>& pieces,
                                                   Index most_bytes);

/// Run number `index` of `runs`.
struct OneRun {
  const RowRuns* runs = nullptr;
  Index index = 0;

  Index begin() const { return runs->begin(index); }
  std::byte* memory() const { return runs->memory + index * runs->memory_step; }
};

/// One read of bytes [begin, end) of a file, and the runs that these bytes contain.
struct ReadCall {
  Index begin = 0;
  Index end = 0;
  std::vector<OneRun> parts;
};

/// Calls visit() with the reads that together contain all runs, in ascending order. Looks at the runs that begin in the
/// next `window` bytes: one read gets all these runs if they are at least a quarter of the bytes from the first run to
/// the end of the last. Otherwise one read gets several runs only if they are less than `gap` bytes apart.
void for_each_read(const std::vector<RowRuns>& runs, Index number_bytes, Index window, Index gap,
                   const std::function<void(const ReadCall&)>& visit);

/// All runs, sorted by their position in the file.
std::vector<OneRun> in_file_order(const std::vector<RowRuns>& runs);

/// The indices of one number of a tensor.
struct OneNumber {
  Index batch = 0, row = 0, head = 0, number = 0;
};
/// Takes a value for each axis (batch, row, head, number). Returns the values for the dataset's axes, in file order.
template <class Value>
std::vector<Value> per_axis(const RowLayout& layout, std::vector<Value> four) {
  if (layout.axes <= 2) return {four.begin() + 1, four.begin() + 1 + std::ptrdiff_t(layout.axes)};
  four.resize(layout.axes);
  return reordered(std::move(four), layout.order);
}
/// The indices of a number as text, "[b, s, h, d]", in the file's order of axes.
std::string index_text(const RowLayout& layout, const OneNumber& at);
/// The same for number `number` of a run; numbers are counted as they lie in memory.
std::string index_text(const RowLayout& layout, const OneRun& run, Index number);

}  // namespace annulus::store
