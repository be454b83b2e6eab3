// `annulus train`: plain gradient descent of the attention layer on a regression target.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

struct TrainOptions {
  std::string run_file;
  std::vector<std::string> overrides;  ///< of --set
  std::string command_line;            ///< for /provenance
};

/// Goes on from the checkpoint if there is one, else starts from the input's weights; saves every train.save_every
/// steps, at the end and when asked to stop (SIGUSR1, SIGTERM), then with exit status 75. Prints the loss before each
/// step on rank 0; the result file gets the weights and the losses, the last one after the last step. Returns the exit
/// status. Collective.
int train(const TrainOptions& options, const comm::Communicator& comm);

}  // namespace annulus::app
