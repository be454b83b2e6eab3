// What makes two launches the same long run: settings, input, program, cuts; kept as text in the run's journal.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/input_tensors.hpp"
#include "annulus/app/job/long_run.hpp"

namespace annulus::app {

/// The identity as one line of text. Reads sampled rows of the input; on this rank alone. Throws Error(failure).
std::string identity_text(const Request& request, const Cuts& cuts);

/// The cuts that an identity text contains.
Cuts cuts_of(const std::string& identity);

/// What has changed since: "attention.causal: true -> false". On this rank alone. Throws Error(failure).
/// `is_decided`: also compares what only a job decides: settings that are `auto`, the instruction set, the kind of GPU.
std::vector<std::string> changes(const std::string& identity, const Request& request, bool is_decided);

}  // namespace annulus::app
