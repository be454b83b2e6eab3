// `annulus run` with strategy stream.
#pragma once

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// From the checked job to the result, or as far as a stop lets it come; collective. Returns the exit status.
int run_stream(const Job& job, const comm::Communicator& comm, const std::string& command_line);

}  // namespace annulus::app
