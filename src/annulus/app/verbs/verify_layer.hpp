// `annulus verify` of a layer's result.
#pragma once

#include "annulus/app/verbs/verify.hpp"

namespace annulus::app {

/// Holds a layer's result against its definition in float64. With compute.backward and where all of it can be
/// recomputed in some seconds, every number of y, dx and all weight gradients; else sampled rows of y, and of dx where
/// the queries that see these rows can be recomputed. The weights' gradients are sums over all rows, so that no part of
/// the rows can tell of them: what was not looked at is printed. Returns 0 or 3 as verify(). Collective.
int verify_layer(const VerifyOptions& options, const comm::Communicator& comm);

}  // namespace annulus::app
