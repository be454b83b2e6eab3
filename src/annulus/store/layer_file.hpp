// The datasets of an attention layer in an HDF5 file: looked at by rank 0, read by every rank.
#pragma once

#include <vector>

#include "annulus/runfile/settings.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/store/matrix_part.hpp"

namespace annulus::store {

/// Reads this rank's parts of matrices and refuses NaN and infinity in them; collective.
void read_parts(const InspectedFile& file, const std::vector<MatrixPart>& parts, const comm::Communicator& comm);

/// Gradients and targets a run reads beside x.
struct LayerExtras {
  bool dy = false;
  bool target = false;
};

class LayerFile : public InputFile {
 public:
  /// Checks x, the weights, and what else is wanted against each other; collective. settings.layer is set. Throws the
  /// same Error(failure) on every rank, naming file, dataset, what was found and what was expected. x, dy and target
  /// are (B, S, E).
  LayerFile(const runfile::Settings& settings, LayerExtras extras, const comm::Communicator& comm);

  /// Reads this rank's parts of weights; collective: every rank names the same datasets. Errors as in read().
  void read_weights(const std::vector<MatrixPart>& parts, const comm::Communicator& comm) const {
    read_parts(inspected(), parts, comm);
  }
};

}  // namespace annulus::store
