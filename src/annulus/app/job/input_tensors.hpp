// The tensors that a run of attention reads, and where they are.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/request.hpp"
#include "annulus/store/file_rows.hpp"

namespace annulus::app {

/// Those that the request reads.
std::vector<core::StoredTensor> input_tensors(const Request& request);

/// q, k, v, dout or dlse: its dataset in the input file, and its name among tensors that are made from a seed.
const std::string& dataset_of(const runfile::InputSettings& input, core::StoredTensor tensor);
core::TensorId seeded_id(core::StoredTensor tensor);

/// Place of such a tensor's rows: in its file, or made from a seed. On this rank alone. Throws Error(failure).
store::RowOrigin input_origin(const Request& request, core::StoredTensor tensor);

}  // namespace annulus::app
