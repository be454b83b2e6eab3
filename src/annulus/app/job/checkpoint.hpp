// What a training saves: the weights after some steps, and the losses so far.
//
// The file has the weights as wq, wk, wv, wo (bq, bk, bv, bo), whole, so that any number of ranks and any sharding goes
// on from it; /loss with one number per step done, before that step; /run/settings; and, as attributes of the file,
// fingerprints of the numbers that it was trained on. It appears complete or not at all, replacing the one before,
// which stays as NAME.previous: of two files one is whole, whatever happens to the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

struct TrainingState {
  layer::Weights weights;
  std::vector<double> losses;  ///< of the weights before each step done; on every rank

  Index steps_done() const { return Index(losses.size()); }
};

/// A dataset that a training goes by.
struct TrainingData {
  std::string dataset;      ///< its name in the input file
  std::string attribute;    ///< of a checkpoint, which holds the fingerprint: "fingerprint_x"
  std::string fingerprint;  ///< 16 hexadecimal digits
};

/// A training: what it is about and what it goes by.
struct TrainingJob {
  const Request& request;  ///< with a layer
  std::vector<TrainingData> data;
};

/// The state that the job's checkpoint holds, or where nothing can be read of it the one before, with a warning;
/// nothing when there is no such file; collective. Throws the same Error on every rank when the file is something else,
/// was made with other settings, or was trained on other numbers. Where an older version made it, which did not say
/// what numbers, rank 0 warns: to refuse would make the steps done worthless.
std::optional<TrainingState> load_checkpoint(const TrainingJob& training, const comm::Communicator& comm);

/// The checkpoint that is there stays as NAME.previous, until the next one but one is made, unless nothing can be read
/// of it; on one rank. Not where a file system has no links.
void keep_previous(const TrainingJob& training);
/// A training that has come to its end needs it no more; on one rank.
void remove_previous(const std::string& checkpoint);

/// Datasets of a file with the weights, in the input's type or another, and this many losses.
std::vector<store::TensorSpec> training_specs(const layer::LayerProblem& problem, Index losses,
                                              std::optional<core::DType> type = std::nullopt);

/// Writes weights and losses to `file`, which was made for them, and finishes it with the job's settings; collective.
/// `columns` become datasets of /run.
void save_training(store::OutputFile& file, const TrainingJob& training, const TrainingState& state,
                   const std::vector<store::Column>& columns, const std::string& command_line,
                   const comm::Communicator& comm);

}  // namespace annulus::app
