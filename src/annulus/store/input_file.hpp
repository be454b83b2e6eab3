// An HDF5 file that a run reads: looked at by rank 0, read by every rank.
//
// No file stays open between calls. A rank that fails elsewhere can then unwind without meeting a collective close.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/pattern/pattern.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/store/row_reading.hpp"

namespace annulus::store {

/// What its datasets are together.
struct FileContents {
  core::Shape shape;                              ///< its rows are those of k and v
  core::DType type = core::DType::float32;        ///< of all but the LSE's gradient
  core::AxisOrder order = core::AxisOrder::bshd;  ///< as input.axes says, or the file; else bshd
  Index width = 0;                                ///< E: numbers of a row of x, with a layer
  Index query_rows = 0;                           ///< Sq: rows of q, dout and dlse; with a layer S
  /// {0, S} without input.documents and input.lengths; with lengths those of all batch entries end to end, of B S rows.
  pattern::Documents documents;
  std::vector<double> sink = {};         ///< (H) sink logits; empty when input.sink is none
  std::vector<double> coordinates = {};  ///< (S, 2) of each batch entry in documents; empty without input.coordinates
};

class InputFile {
 public:
  const core::Shape& shape() const { return contents_.shape; }
  core::DType type() const { return contents_.type; }
  core::AxisOrder order() const { return contents_.order; }
  Index width() const { return contents_.width; }
  Index query_rows() const { return contents_.query_rows; }
  const pattern::Documents& documents() const { return contents_.documents; }
  const std::vector<double>& sink() const { return contents_.sink; }
  const std::vector<double>& coordinates() const { return contents_.coordinates; }

  /// Reads this rank's rows (ascending disjoint intervals, none is allowed) of several datasets in their types;
  /// collective: every rank names the same datasets. Bits of 16-bit types arrive untouched. NaN and infinity are errors
  /// that name dataset, global index as in the file (the lowest [b, s, h, d] over all ranks) and value; so is a file
  /// that is no more the one that was checked.
  void read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
            const comm::Communicator& comm) const;

  /// What later openings are held against.
  const InspectedFile& inspected() const { return file_; }

 protected:
  InputFile() = default;

  InspectedFile file_;
  FileContents contents_;
};

class TensorFile : public InputFile {
 public:
  /// Checks the file and its datasets q, k, v (documents, sink; with `gradients` dout and dlse) against each other;
  /// collective. Throws the same Error(failure) on every rank, naming file, dataset, what was found and what was
  /// expected.
  TensorFile(const runfile::InputSettings& input, const comm::Communicator& comm, bool gradients = false);
};

/// Gradients and targets that a run of a layer reads beside x.
struct LayerExtras {
  bool dy = false;
  bool target = false;
};
class LayerFile : public InputFile {
 public:
  /// Checks x, the weights, and what else is wanted against each other; collective. settings.layer is set. Throws as
  /// TensorFile. x, dy and target are (B, S, E).
  LayerFile(const runfile::Settings& settings, LayerExtras extras, const comm::Communicator& comm);
};

/// Reads this rank's parts of matrices and refuses NaN and infinity in them; collective: every rank names the same
/// datasets. Errors as in InputFile::read().
void read_parts(const InspectedFile& file, const std::vector<MatrixPart>& parts, const comm::Communicator& comm);

// Single pieces of other such files; on this rank alone. They throw Error(failure).

/// What a dataset of numbers is.
DatasetInfo look_at_dataset(const std::string& path, const std::string& name);
/// The text in an attribute of the file itself, nothing where there is none.
std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name);
/// The text in a scalar dataset.
std::string read_text_dataset(const std::string& path, const std::string& name);

}  // namespace annulus::store
