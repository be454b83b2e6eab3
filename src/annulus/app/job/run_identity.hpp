// Two launches belong to the same long run if their settings, input, program and cuts are equal: the run's identity.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/store/journal.hpp"

namespace annulus::app {

/// The identity as one line, for the journal. Reads sampled rows of the input. Call on one rank. Throws Error(failure).
std::string identity_text(const Request& request, const Cuts& cuts);

/// The cuts that an identity text contains. `journal`: the file that has the text, for messages.
Cuts cuts_of(const std::string& identity, const std::string& journal);

/// What has changed since the journal began: "attention.causal: true -> false". `is_decided`: the request is a Job, so
/// what a job decides is compared, too: `auto`, instruction set, kind of GPU. Call on one rank. Throws Error(failure).
std::vector<std::string> changes(const store::Journal& journal, const Request& request, bool is_decided);

}  // namespace annulus::app
