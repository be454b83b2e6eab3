// Rectangular parts of matrices and vectors: weights, of which every rank keeps a part.
#pragma once

#include <optional>
#include <string>

#include "annulus/core/row_store.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

/// Rows x columns of a dataset with two axes; one with one axis of n numbers is n rows of one column.
struct Rectangle {
  core::Interval rows;
  core::Interval columns;

  core::Index count() const { return rows.size() * columns.size(); }
};

/// What is read or written of a dataset, and the memory it lies in: `kept` of the dataset, row-major.
struct MatrixPart {
  std::string dataset;
  Rectangle part;  ///< inside `kept`; empty: this rank moves nothing
  Rectangle kept;
  void* host = nullptr;
  std::optional<NumberType> type{};  ///< of the numbers there, when they are written; empty: the dataset's
};

/// The part as a piece of a tensor with one batch entry, whose heads are the columns, of one number each.
/// `number_bytes` are those of a number in memory.
inline core::RowPiece piece_of(const MatrixPart& matrix, core::Index number_bytes) {
  const Rectangle &part = matrix.part, &kept = matrix.kept;
  const core::Index first =
      (part.rows.begin - kept.rows.begin) * kept.columns.size() + part.columns.begin - kept.columns.begin;
  return {.first = part.rows.begin,
          .count = part.rows.size(),
          .heads = part.columns,
          .memory = static_cast<std::byte*>(matrix.host) + first * number_bytes,
          .pitch = kept.columns.size() * number_bytes,
          .head_pitch = number_bytes};
}

}  // namespace annulus::store
