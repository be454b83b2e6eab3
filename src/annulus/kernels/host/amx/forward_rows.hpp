// Walks over the steps of the forward pass on the matrix unit, and changes a step's scores and sums row by row.
// Products of bfloat16 (forward_tiles.cpp) and of numbers in parts (split.hpp, split_forward.cpp) use this.
#pragma once

#include "annulus/kernels/host/amx/forward_step.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Walks over a tile of keys, one group of rows after another. In each group, goes from step to step, from the first
/// key that a row of the group sees to the last one.
class Walk {
 public:
  /// `parts`: how many parts a number has; `columns`: how many tiles of columns values and accumulators have.
  ANNULUS_INLINE_MEMBER Walk(const QueryPanels<BFloat16Pair>& panels, const KeyTile<BFloat16Pair>& tile, int columns,
                             int parts = 1)
      : panels_(panels),
        tile_(tile),
        depth_(depth_tiles(panels.head_dim) * parts),
        columns_(columns),
        key_words_(4 * depth_ * kTileWords),
        value_words_(2 * columns * parts * kTileWords) {
    enter_group(0);
  }

  ANNULUS_INLINE_MEMBER bool is_done() const { return step_.row >= panels_.rows; }
  ANNULUS_INLINE_MEMBER const Step& step() const { return step_; }
  ANNULUS_INLINE_MEMBER void go_on() {
    const int key = step_.first_key + kStepKeys;
    if (key >= end_) return enter_group(step_.row + kStepRows);
    step_.keys += key_words_;
    step_.values += value_words_;
    enter_step(key);
  }

 private:
  ANNULUS_INLINE_MEMBER void enter_step(int key) {
    step_.first_key = key;
    step_.is_masked = key < whole_begin_ || key + kStepKeys > whole_end_;
  }
  /// Goes to the first group, from row number `row` on, that has steps in this tile, and to the first of these steps.
  void enter_group(std::int64_t row) {
    for (; row < panels_.rows; row += kStepRows) {
      const std::int64_t last = row + kStepRows < panels_.rows ? row + kStepRows - 1 : panels_.rows - 1;
      const int begin = within(panels_.begin[last]);
      end_ = within(panels_.end[row]);
      if (begin >= end_) continue;
      whole_begin_ = within(panels_.begin[row]);
      // whole_end_ is at most tile_.count. So if the last step is filled up with zeros, this step counts as masked,
      // because no row sees the zeros.
      whole_end_ = within(panels_.end[last]);
      const int number = begin / kStepKeys;
      step_.keys = tile_.keys + std::int64_t(number) * key_words_;
      step_.values = tile_.values + std::int64_t(number) * value_words_;
      step_.queries = panels_.queries + row * depth_ * kTileRows;
      step_.acc = panels_.acc + row * columns_ * kTileRows;
      step_.sum = panels_.sum + row;
      step_.max = panels_.max + row;
      enter_step(number * kStepKeys);
      break;
    }
    step_.row = row;
  }
  int within(std::int64_t position) const {
    const std::int64_t key = position - tile_.first;
    return key < 0 ? 0 : key < tile_.count ? int(key) : tile_.count;
  }

  const QueryPanels<BFloat16Pair>& panels_;
  const KeyTile<BFloat16Pair>& tile_;
  const int depth_, columns_;            // how many tiles the parts of a row take; how many tiles of columns
  const int key_words_, value_words_;    // words of a step's keys and values
  int end_ = 0;                          // after the last key that a row of the group sees
  int whole_begin_ = 0, whole_end_ = 0;  // the keys that all rows of the group see
  Step step_ = {};
};

/// Keys [begin, end).
struct SeenKeys {
  std::int64_t begin, end;
};

/// Changes the scores and sums of a step row by row.
class StepRows {
 public:
  /// `factor`: a score times `factor` is in base 2; `columns`: how many tiles of columns accumulators have.
  StepRows(const QueryPanels<BFloat16Pair>& panels, const KeyTile<BFloat16Pair>& tile, int columns, float factor)
      : panels_(panels), tile_(tile), columns_(columns), factor_(factor) {}

  /// Returns the number of row i of the step. If this row does not exist, returns the number of the last row that
  /// exists.
  std::int64_t row_of(const Step& step, int i) const {
    return step.row + i < panels_.rows ? step.row + i : panels_.rows - 1;
  }
  /// Returns which of the step's keys its row i sees: [begin, end), which may reach beyond the step.
  SeenKeys seen_by(const Step& step, int i) const {
    const std::int64_t row = row_of(step, i), first = tile_.first + step.first_key;
    return {panels_.begin[row] - first, panels_.end[row] - first};
  }
  void hide_unseen(const Step& step, float* scores) const;
  /// `only_empty`: raises m only of rows whose m is -inf. For other rows the caller must first add the step before to
  /// the accumulators, because that step's weights have the scale of the old m.
  void raise_maxima(const Step& step, const float* scores, bool only_empty = false) const;
  bool has_empty_rows(const Step& step) const;

 private:
  void rescale(const Step& step, int row, float by) const;

  const QueryPanels<BFloat16Pair>& panels_;
  const KeyTile<BFloat16Pair>& tile_;
  const int columns_;
  const float factor_;
};

/// Sets scores of keys that a row does not see to -inf.
inline void StepRows::hide_unseen(const Step& step, float* scores) const {
  constexpr int n = kLanes<float>;
  const std::int64_t first = tile_.first + step.first_key;
  const auto within = [&](std::int64_t position) {
    return position < first ? 0 : position > first + kStepKeys ? kStepKeys : int(position - first);
  };
  for (int v = 0; v < kStepRows / n; ++v) {
    Vec<std::int32_t> begin, end;
    for (int i = 0; i < n; ++i) {
      const std::int64_t row = row_of(step, v * n + i);
      begin[i] = within(panels_.begin[row]);
      end[i] = within(panels_.end[row]);
    }
    float* const column = scores + v * n / kTileRows * kTileWords + v * n % kTileRows;
    for (int key = 0; key < kStepKeys; ++key) {
      float* const score = column + key / kTileRows * kHalves * kTileWords + key % kTileRows * kTileRows;
      const Vec<std::int32_t> number = Vec<std::int32_t>{} + key;
      const auto is_seen = (number >= begin) & (number < end);
      store(score, is_seen ? load<Floats>(score) : broadcast(-kInfinity<float>));
    }
  }
}

/// Multiplies a row's l and accumulators by 2^by, where `by` is an even number below 0. Multiplies twice by 2^(by / 2),
/// because 2^by may be too small for a float.
inline void StepRows::rescale(const Step& step, int row, float by) const {
  const float half = by / 2;
  const float root = half < -126 ? 0.f : bits_as<float>(std::uint32_t(int(half) + 127) << 23);
  step.sum[row] = step.sum[row] * root * root;
  float* number = step.acc + row;
  for (int column = 0; column < columns_ * kTileRows; ++column, number += kStepRows) *number = *number * root * root;
}

/// Raises m of the rows that have a score above m, and brings their sums and accumulators to the new scale.
inline void StepRows::raise_maxima(const Step& step, const float* scores, bool only_empty) const {
  constexpr int n = kLanes<float>;
  alignas(64) float largest[kStepRows];
  for (int v = 0; v < kStepRows / n; ++v) {
    const float* const column = scores + v * n / kTileRows * kTileWords + v * n % kTileRows;
    Floats most = broadcast(-kInfinity<float>);
    for (int key = 0; key < kStepKeys; ++key) {
      const auto score = load<Floats>(column + key / kTileRows * kHalves * kTileWords + key % kTileRows * kTileRows);
      most = larger(score * broadcast(factor_), most);
    }
    store(largest + v * n, most);
  }
  for (int row = 0; row < kStepRows; ++row) {
    const float before = step.max[row];
    if (!(largest[row] > before) || (only_empty && before > -kInfinity<float>)) continue;
    const float now = maximum_for(largest[row]) < kLargest<float> ? maximum_for(largest[row]) : kLargest<float>;
    step.max[row] = now;
    if (before > -kInfinity<float>) rescale(step, row, before - now);
  }
}

/// True if m of some row is still -inf: the row has seen no key with a score above -inf.
inline bool StepRows::has_empty_rows(const Step& step) const {
  for (int v = 0; v < kStepRows; v += kLanes<float>)
    if (any_above(broadcast(-kLargest<float>), load<Floats>(step.max + v))) return true;
  return false;
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
