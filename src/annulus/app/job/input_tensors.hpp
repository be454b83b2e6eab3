// The tensors that a run of attention reads, and where they are.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/request.hpp"
#include "annulus/store/file_rows.hpp"

namespace annulus::app {

/// The input tensors that the request reads.
std::vector<core::StoredTensor> input_tensors(const Request& request);

/// The dataset of q, k, v, dout or dlse in the input file; for generated inputs, the tensor's name.
const std::string& dataset_of(const runfile::InputSettings& input, core::StoredTensor tensor);
core::TensorId seeded_id(core::StoredTensor tensor);

/// Where the rows of such a tensor come from: a file or a seed. Local. Throws Error(failure).
store::RowOrigin input_origin(const Request& request, core::StoredTensor tensor);

}  // namespace annulus::app
