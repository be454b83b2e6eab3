// `annulus run` of a file with a section layer.
#pragma once

#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/app/report/pass.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::app {

/// Datasets of the result: y, and with compute.backward dx and the gradients of all weights, dwq ...
std::vector<io::TensorSpec> layer_tensors(const Job& job);

/// From the checked job to the tensors in the file; collective.
Passes compute_layer(const Job& job, const comm::Communicator& comm, const io::ResultFile& file);

}  // namespace annulus::app
