// The datasets of an attention layer in an HDF5 file: looked at by rank 0, read by every rank.
#pragma once

#include <string>
#include <vector>

#include "annulus/io/part_transfer.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::io {

/// Gradients and targets a run reads beside x.
struct LayerWants {
  bool dy = false;
  bool target = false;
};

class LayerFile {
 public:
  /// Checks x, the weights, and what else is wanted against each other; collective. settings.layer is set. Throws the
  /// same Error(failure) on every rank, naming file, dataset, what was found and what was expected.
  LayerFile(const Settings& settings, LayerWants wants, const comm::Communicator& comm);

  /// batch, sequence, heads, kv_heads, head_dim.
  const core::Shape& shape() const { return shape_; }
  /// E: numbers of a row of x.
  Index width() const { return width_; }
  /// Of x and all weights.
  core::DType type() const { return type_; }
  const pattern::Documents& documents() const { return documents_; }

  /// Reads this rank's rows (ascending disjoint intervals, none is allowed) of x, dy or target, (B, rows, E) in
  /// type(); collective. NaN and infinity are errors that name dataset, place and value; so is a file that is no more
  /// the one that was checked.
  void read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
            const comm::Communicator& comm) const;

  /// What later openings are held against.
  const SeenFile& seen() const { return file_; }

  /// Reads this rank's parts of weights; collective: every rank names the same datasets. Errors as in read().
  void read_weights(const std::vector<MatrixPart>& parts, const comm::Communicator& comm) const;

 private:
  SeenFile file_;
  core::Shape shape_;
  Index width_ = 0;
  core::DType type_ = core::DType::float32;
  pattern::Documents documents_;
};

/// Throws Error(failure) where a part holds a NaN or infinity: "WHERE holds inf at [2, 7], EXPECTED".
void check_finite(const std::string& where, const MatrixPart& part, core::DType type, const std::string& expected);

/// Reads parts of matrices and refuses NaN and infinity in them; collective.
void read_checked_parts(const SeenFile& file, const std::vector<MatrixPart>& parts, const comm::Communicator& comm);

}  // namespace annulus::io
