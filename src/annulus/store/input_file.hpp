// An HDF5 file that a run reads. Rank 0 checks the file, and every rank reads it.
//
// In each call, each rank opens and closes the file on its own. So no rank waits for another rank to close the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/pattern/pattern.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/store/row_reading.hpp"

namespace annulus::store {

/// What the datasets of an input file together say about the file's content.
struct FileContents {
  core::Shape shape;                              ///< its rows are the rows of k and v
  core::DType type = core::DType::float32;        ///< type of all tensors except dlse
  core::AxisOrder order = core::AxisOrder::bshd;  ///< from input.axes or the file; otherwise bshd
  Index width = 0;                                ///< E, how many numbers a row of x has; only for a layer
  Index query_rows = 0;                           ///< Sq, the number of rows of q, dout and dlse; for a layer S
  /// From input.documents, or from input.lengths if it applies to q, too (all batch entries then lie end to end, as one
  /// sequence of B S rows). If neither key defines documents, one document {0, S}.
  pattern::Documents documents;
  /// The rows of k and v that exist, for each batch entry. Empty unless input.lengths applies only to k and v.
  std::vector<core::Interval> key_ranges = {};
  std::vector<double> sink = {};         ///< (H) sink logits; empty if input.sink is empty
  std::vector<double> coordinates = {};  ///< (S, 2), or (B S, 2) if entries lie end to end; empty: not given
};

/// A file that tensor_file() or layer_file() has checked.
class InputFile {
 public:
  InputFile(InspectedFile file, FileContents contents) : file_(std::move(file)), contents_(std::move(contents)) {}

  const core::Shape& shape() const { return contents_.shape; }
  core::DType type() const { return contents_.type; }
  core::AxisOrder order() const { return contents_.order; }
  Index width() const { return contents_.width; }
  Index query_rows() const { return contents_.query_rows; }
  const pattern::Documents& documents() const { return contents_.documents; }
  const std::vector<core::Interval>& key_ranges() const { return contents_.key_ranges; }
  const std::vector<double>& sink() const { return contents_.sink; }
  const std::vector<double>& coordinates() const { return contents_.coordinates; }

  /// Reads this rank's rows (ascending disjoint intervals, possibly none) of several datasets, in the dataset's type.
  /// Collective: every rank names the same datasets. Throws the same Error(failure) on every rank if a number is NaN or
  /// infinite, or means "missing", or if the file has changed since it was checked. The message names the dataset, the
  /// number and its index in the file. If several numbers are NaN or infinite, the message names the number with the
  /// lowest [b, s, h, d].
  void read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
            const comm::Communicator& comm) const;

  /// The file as it was checked. Whenever the file is opened later, it must still be as described here.
  const InspectedFile& inspected() const { return file_; }

 private:
  InspectedFile file_;
  FileContents contents_;
};

/// Checks the file, and whether q, k, v and the other datasets that `input` names (dout and dlse: with `gradients`) fit
/// each other. Collective. Throws the same Error(failure) on every rank. The message names file and dataset, and says
/// what was found and what was expected.
InputFile tensor_file(const runfile::InputSettings& input, const comm::Communicator& comm, bool gradients = false);

/// Selects the tensors that a run of a layer reads in addition to x.
struct LayerExtras {
  bool dy = false;
  bool target = false;
};
/// Checks whether x, the weights and the `extras` fit each other. settings.layer must be set; x, dy and target are
/// (B, S, E). Collective. Throws the same errors as tensor_file().
InputFile layer_file(const runfile::Settings& settings, LayerExtras extras, const comm::Communicator& comm);

/// Reads this rank's parts of matrices. NaN and infinity are errors. Collective: every rank names the same datasets.
/// Throws the same errors as InputFile::read().
void read_parts(const InspectedFile& file, const std::vector<MatrixPart>& parts, const comm::Communicator& comm);

// The following functions read single items of other HDF5 files. They are not collective, and throw Error(failure).

/// Extents and type of a dataset of numbers.
DatasetInfo look_at_dataset(const std::string& path, const std::string& name);
/// The text in an attribute of the file itself, or of one of its groups; empty if there is none.
std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name,
                                               const std::string& group = "/");
/// Reads the text in a scalar dataset.
std::string read_text_dataset(const std::string& path, const std::string& name);

}  // namespace annulus::store
