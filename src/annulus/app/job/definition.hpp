// What a request's result should have been.
#pragma once

#include "annulus/app/job/request.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::app {

/// Rows of a result against the definition, of attention or of a layer; collective.
verify::Findings hold_against_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm);

/// The rows that it will look at where `sample.file` is none: the result need not tell of others. Local, the same on
/// every rank.
verify::SampledRows rows_looked_at(const Request& request, Index count);

}  // namespace annulus::app
