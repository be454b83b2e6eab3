// Compares the result of a request with the definition of attention.
#pragma once

#include "annulus/app/job/request.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::app {

/// Compares sampled rows of a result, of attention or of a layer, with the definition; collective.
verify::Findings compare_with_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm);

/// The rows that compare_with_definition() compares if `sample.file` is null: a result needs only these rows. Local;
/// the same on every rank.
verify::SampledRows sampled_rows(const Request& request, Index count);

}  // namespace annulus::app
