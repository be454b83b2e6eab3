// `annulus run` with strategy stream.
#pragma once

#include <functional>

#include "annulus/app/report/record.hpp"

namespace annulus::app {

/// From the checked job to its result; nothing where a part of it is left, of which stderr tells then. `finish` makes
/// the record of what was measured. Collective.
std::optional<Measurements> compute_blocks(const Job& job, const std::function<io::Record(const Measurements&)>& finish,
                                           const comm::Communicator& comm);

}  // namespace annulus::app
