// Rectangular parts of matrices and vectors. Each rank keeps such a part of every weight.
#pragma once

#include <optional>
#include <string>

#include "annulus/core/row_store.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Rectangle;

/// A part of a dataset that a rank reads or writes. `host` holds the dataset's rectangle `kept`, row-major.
struct MatrixPart {
  std::string dataset;
  Rectangle part;  ///< must be inside `kept`; empty: this rank reads or writes nothing
  Rectangle kept;
  void* host = nullptr;
  std::optional<NumberType> type{};  ///< only for writing: the type in memory; empty: the dataset's type
};

/// Returns the part as a piece of a tensor with one batch entry, in which each column is a head with one number.
/// `number_bytes`: bytes of a number in memory.
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
