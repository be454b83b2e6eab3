// The tensors that a run of attention reads, and where they are.
#pragma once

#include <vector>

#include "annulus/app/job/request.hpp"
#include "annulus/store/file_rows.hpp"

namespace annulus::app {

/// The input tensors that the request reads: q, k, v and, with gradients, dout and perhaps dlse.
std::vector<core::StoredTensor> input_tensors(const Request& request);

/// Where the rows of such a tensor come from: a file or a seed. Local. Throws Error(failure).
store::RowOrigin input_origin(const Request& request, core::StoredTensor tensor);

/// Sets where `rows` reads each input tensor. Reading fails only for numbers that `wanted` does not allow.
void put_inputs(const Request& request, store::Wanted wanted, store::FileRows& rows);

}  // namespace annulus::app
