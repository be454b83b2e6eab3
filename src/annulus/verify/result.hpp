// A result file as `verify` finds it.
#pragma once

#include <vector>

#include "annulus/runfile/run_file.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/result_layout.hpp"

namespace annulus::verify {

/// A file with these datasets, to be read from.
store::InspectedFile inspected_file(const std::string& path, const store::FileState& identity,
                                    const std::vector<store::TensorSpec>& datasets);

/// Throws Error(failure) where a dataset is missing or other than it should be, "expected ... WHY". On this rank alone.
void check_datasets(const std::string& path, const std::vector<store::TensorSpec>& datasets, const std::string& why);

/// The result file, with the datasets that it must have; collective. Throws the same Error(failure) on
/// every rank where it is not there, was made with other settings than this run file has now, or lacks a dataset.
store::InspectedFile look_at_result(const runfile::RunFile& run, const std::vector<store::TensorSpec>& datasets,
                                    const comm::Communicator& comm);

}  // namespace annulus::verify
