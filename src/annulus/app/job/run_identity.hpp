// The identity of a long run: its settings, input, program and cuts. Launches with equal identities belong to one run.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/store/journal.hpp"

namespace annulus::app {

/// The identity as one line, for the journal. Reads sampled rows of the input. Call it on one rank. Throws
/// Error(failure).
std::string identity_text(const Request& request, const Cuts& cuts);

/// The cuts that an identity text contains. Throws Error(failure), which names `journal`, if the text is damaged.
Cuts cuts_of(const std::string& identity, const std::string& journal);

/// Returns what has changed since the journal began: "attention.causal: true -> false". `is_decided`: the request is a
/// Job, so what a job decides is compared, too: precision and back end of `auto`, granule, instruction set, kind of
/// GPU. Call it on one rank. Throws Error(failure).
std::vector<std::string> changes(const store::Journal& journal, const Request& request, bool is_decided);

}  // namespace annulus::app
