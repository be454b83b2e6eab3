// What a training saves: the weights after some steps, and the losses so far.
//
// The file has the weights as wq, wk, wv, wo (bq, bk, bv, bo), whole, so that any number of ranks and any sharding goes
// on from it; /loss with one number per step done, before that step; and /run/settings. It appears complete or not at
// all, replacing the one before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/layer_tensors.hpp"

namespace annulus::app {

struct TrainingState {
  layer::Weights weights;
  std::vector<double> losses;  ///< of the weights before each step done; on every rank

  Index steps_done() const { return Index(losses.size()); }
};

/// The state that the job's checkpoint holds, nothing when there is no such file; collective. Throws the same Error on
/// every rank when the file is something else or was made with other settings.
std::optional<TrainingState> load_checkpoint(const Job& job, const layer::LayerProblem& problem,
                                             const comm::Communicator& comm);

/// Datasets of a file with the weights and so many losses.
std::vector<io::TensorSpec> training_specs(const layer::LayerProblem& problem, Index losses);

/// Writes weights and losses to `file`, which was made for them, and finishes it with the job's settings; collective.
/// `columns` become datasets of /run.
void save_training(io::ResultFile& file, const Job& job, const layer::LayerProblem& problem, const TrainingState& state,
                   const std::vector<io::Column>& columns, const std::string& command_line,
                   const comm::Communicator& comm);

}  // namespace annulus::app
