// What makes two launches the same long run: settings, input, program, cuts; kept as text in the run's journal.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/long_run.hpp"
#include "annulus/io/file_rows.hpp"

namespace annulus::app {

/// As a line of text. Reads sampled rows of the input; on this rank alone. Throws Error(failure).
std::string identity_text(const Request& request, const Cuts& cuts);

/// The cuts in it.
Cuts cuts_of(const std::string& identity);

/// What is another now: "attention.causal: true -> false". On this rank alone. Throws Error(failure).
std::vector<std::string> changes(const std::string& identity, const Request& request);

/// Place of an input tensor's rows: in its file, or made from a seed. On this rank alone. Throws Error(failure).
io::FileRows::Place input_place(const Request& request, core::StoredTensor tensor);
/// Those that the request reads.
std::vector<core::StoredTensor> input_tensors(const Request& request);

}  // namespace annulus::app
