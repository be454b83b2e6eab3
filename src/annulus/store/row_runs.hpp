// Rows of a tensor as stretches of a file's bytes: which of them, where they go, and how few calls bring them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annulus/core/axes.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Index;

/// Which numbers may be read: finite ones of inputs; NaN and infinity, too, but no number that stands for a missing
/// one; or all, of results, and of inputs that all ranks look at together afterwards.
enum class Wanted { finite_numbers, present_numbers, any_numbers };

/// How a tensor lies in a file, and as what it is kept in memory.
struct RowLayout {
  std::string where;           ///< for messages: "tokens.h5: dataset /q"
  Index offset = 0;            ///< byte of the file that its first number begins at
  std::vector<Index> extents;  ///< (B, S, heads, numbers of a head), whatever the order in the file
  core::AxisOrder order = core::AxisOrder::bshd;
  core::DType type = core::DType::float32;
  core::DType memory = core::DType::float32;
  bool is_finite = true;    ///< NaN and infinity are errors when it is read
  MissingValues missing{};  ///< and so are these numbers
  std::size_t axes = 4;  ///< of the dataset: 3 lack the last extent; a matrix has rows and heads, a vector rows alone
  std::vector<core::Interval> left_out{};  ///< rows that existing() leaves out, as InspectedFile has them

  void allow(Wanted wanted) {
    if (wanted != Wanted::finite_numbers) is_finite = false;
    if (wanted == Wanted::any_numbers) missing.clear();
  }
  Index heads() const { return extents[2]; }
  Index head_numbers() const { return extents[3]; }
  Index number_bytes() const { return Index(core::bytes_of(type)); }
};

/// A piece's rows as `count` runs of `numbers` numbers, a step apart in the file and in memory.
struct RowRuns {
  Index file = 0;  ///< byte
  Index file_step = 0;
  std::byte* memory = nullptr;
  Index memory_step = 0;
  Index numbers = 0;
  Index count = 0;
  // where the first number belongs, for messages
  Index batch = 0, row = 0, row_step = 1, head = 0;

  Index begin(Index i) const { return file + i * file_step; }
};

/// A piece cut where batch entries of `sequence` rows end: row S of an entry is row 0 of the next one.
/// Worked example: rows 2, 4, 6 of entry 0, S = 5: rows 2 and 4 of entry 0, and row 1 of entry 1.
std::vector<core::RowPiece> in_entries(const core::RowPiece& piece, Index sequence);

/// Those rows of the pieces that exist; in memory zeros take the place of the others.
std::vector<core::RowPiece> existing(const RowLayout& layout, const std::vector<core::RowPiece>& pieces);

/// Rows may go on from entry to entry, as in_entries() says. Throws an internal error for rows or heads that the tensor
/// has not.
/// Worked example: rows 1, 3 of heads [0, 2) of a (1, 4, 2, 8) float32 tensor at byte 100: bshd: 2 runs of 16 numbers
/// from byte 164 on, 128 bytes apart. bhsd: for each head 2 runs of 8 numbers, from byte 132 and 260 on, 64 bytes
/// apart.
std::vector<RowRuns> runs_of(const RowLayout& layout, const core::RowPiece& piece);

/// The same pieces in groups of at most `most_bytes` of a file, or one row of one piece, each: between two groups a
/// rank can say that it is alive. Only pieces that are larger than a group are cut.
std::vector<std::vector<core::RowPiece>> groups_of(const RowLayout& layout, const std::vector<core::RowPiece>& pieces,
                                                   Index most_bytes);

/// Run `index` of `runs`.
struct OneRun {
  const RowRuns* runs = nullptr;
  Index index = 0;

  Index begin() const { return runs->begin(index); }
  std::byte* memory() const { return runs->memory + index * runs->memory_step; }
};

/// Bytes [begin, end) of a file that are read by one call, and the runs in them.
struct ReadCall {
  Index begin = 0;
  Index end = 0;
  std::vector<OneRun> parts;
};

/// The calls that bring all runs, ascending: inside windows of `window` bytes everything from the first to the last
/// needed byte where at least a quarter of it is needed, else each run, joined with the next where less than `gap`
/// bytes lie between. Runs longer than a window make it longer.
void for_each_read(const std::vector<RowRuns>& runs, Index number_bytes, Index window, Index gap,
                   const std::function<void(const ReadCall&)>& visit);

/// All runs, ascending in the file.
std::vector<OneRun> in_file_order(const std::vector<RowRuns>& runs);

/// A number of a tensor, counted along its axes in memory.
struct OneNumber {
  Index batch = 0, row = 0, head = 0, number = 0;
};
/// One value for each axis of the dataset, in the file's order, out of one for each of the four in memory.
template <class Value>
std::vector<Value> per_axis(const RowLayout& layout, std::vector<Value> four) {
  if (layout.axes <= 2) return {four.begin() + 1, four.begin() + 1 + std::ptrdiff_t(layout.axes)};
  four.resize(layout.axes);
  return reordered(std::move(four), layout.order);
}
/// "[b, s, h, d]" as the file orders its axes.
std::string index_text(const RowLayout& layout, const OneNumber& at);
/// The same of number `number` of a run.
std::string index_text(const RowLayout& layout, const OneRun& run, Index number);

}  // namespace annulus::store
