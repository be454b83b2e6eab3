// `annulus list` and `annulus info`.
#pragma once

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Strategies, semantics, shardings and partitions, one line each.
void print_list();

/// Versions, back ends, devices, MPI, transfers, threads and binding, one line each; every rank's place is named.
/// Collective.
void print_info(const comm::Communicator& comm);

}  // namespace annulus::app
