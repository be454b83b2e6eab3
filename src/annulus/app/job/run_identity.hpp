// Two launches belong to the same long run if their settings, input, program and cuts are equal. The journal has these.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/store/journal.hpp"

namespace annulus::app {

/// The identity as one line of text. Reads sampled rows of the input. Call on one rank. Throws Error(failure).
std::string identity_text(const Request& request, const Cuts& cuts);

/// The cuts that an identity text contains. `journal`: the file that has the text, for messages.
Cuts cuts_of(const std::string& identity, const std::string& journal);

/// What has changed since then: "attention.causal: true -> false". `is_decided`: also compares what only a job decides:
/// settings that are `auto`, the instruction set, the kind of GPU. Call on one rank. Throws Error(failure).
std::vector<std::string> changes(const store::Journal& journal, const Request& request, bool is_decided);

}  // namespace annulus::app
