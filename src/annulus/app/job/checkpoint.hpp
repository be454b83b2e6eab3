// The checkpoint of a training run: the weights after some steps, and the losses so far.
//
// The file has the whole weights wq, wk, wv, wo and the biases of the layer, so any number of ranks, with any sharding,
// can continue. /loss has one number for each step done: the loss before that step. The file also has /run/settings
// and, as attributes, fingerprints of the data. The file gets its name NAME when it is complete. The checkpoint that
// had this name before is kept as NAME.previous, so one of the two files is always complete.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

struct TrainingState {
  layer::Weights weights;
  std::vector<double> losses;  ///< [i]: the loss before step i; the same on every rank

  Index steps_done() const { return Index(losses.size()); }
};

/// A dataset of the input file that a training run reads.
struct TrainingData {
  std::string key;          ///< key of the run file that names the dataset: "layer.x"
  std::string dataset;      ///< its name in the input file
  std::string attribute;    ///< attribute of the checkpoint that holds the fingerprint: "fingerprint_x"
  std::string fingerprint;  ///< 16 hexadecimal digits
};

/// A training run: its settings and its datasets.
struct TrainingJob {
  const Request& request;  ///< has a layer
  std::vector<TrainingData> data;
};

/// Throws Error(failure) if NAME.previous is a file that this training would replace and remove, although no launch of
/// this training has made it. Call it on one rank, after load_checkpoint(), which explains what is wrong with NAME.
void check_previous(const TrainingJob& training);

/// The state of the file that has the checkpoint's name; check_not_replaced() compares it later. Empty if there is no
/// such file.
std::optional<store::FileState> look_up_checkpoint(const TrainingJob& training);
/// Throws Error(failure) if another program has replaced, made or removed the checkpoint since `last`. A checkpoint
/// counts as replaced if both its inode and its time differ, because FUSE and NFS may change one of the two by
/// themselves. Call it on one rank, before keep_previous().
void check_not_replaced(const TrainingJob& training, const std::optional<store::FileState>& last);

/// Loads the job's checkpoint. If it cannot be read, and a previous checkpoint exists, warns and loads the previous
/// one. Empty if the job's checkpoint does not exist. Collective. Throws the same Error on every rank if the file is
/// not a checkpoint, is damaged, or was made with other settings or data. For a file of an older version, which has no
/// fingerprints of the data, rank 0 only warns, so that the steps in the file are not lost.
std::optional<TrainingState> load_checkpoint(const TrainingJob& training, const comm::Communicator& comm);

/// Gives the present checkpoint the second name NAME.previous. The file keeps this name when a save replaces NAME. Call
/// it before each save, on one rank. Does nothing if the checkpoint cannot be read, or the file system has no links.
void keep_previous(const TrainingJob& training);
/// Removes NAME.previous, which a finished training does not need. Call it on one rank.
void remove_previous(const std::string& checkpoint);

/// Specifications of a checkpoint's or a result's datasets: the weights, of the input's type if `type` is empty, and
/// `losses` losses in float64.
std::vector<store::TensorSpec> training_specs(const layer::LayerProblem& problem, Index losses,
                                              std::optional<core::DType> type = std::nullopt);

/// Writes weights and losses to `file`, which was made with training_specs(), and finishes it with the job's settings.
/// `columns` become datasets of /run. Collective.
void save_training(store::OutputFile& file, const TrainingJob& training, const TrainingState& state,
                   const std::vector<store::Column>& columns, const std::string& command_line,
                   const comm::Communicator& comm);

}  // namespace annulus::app
