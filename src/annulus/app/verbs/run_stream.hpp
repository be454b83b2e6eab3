// `annulus run` with strategy stream.
#pragma once

#include <functional>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/report/record.hpp"

namespace annulus::app {

/// From the checked job to its result; nothing where units are left: `rest` says why. `finish` makes the record of what
/// was measured. Collective.
std::optional<Measurements> compute_blocks(const Job& job, const std::function<io::Record(const Measurements&)>& finish,
                                           const comm::Communicator& comm, WhyUnfinished& rest);

}  // namespace annulus::app
