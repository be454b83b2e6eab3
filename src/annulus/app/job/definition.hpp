// Compares the result of a request with the definition of attention.
#pragma once

#include "annulus/app/job/request.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::app {

/// Compares sampled rows of a result, of attention or of a layer, with the definition; collective.
verify::Findings compare_with_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm);

}  // namespace annulus::app
