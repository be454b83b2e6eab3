// A result file as `verify` finds it.
#pragma once

#include <vector>

#include "annulus/io/inspected_file.hpp"
#include "annulus/io/result_layout.hpp"
#include "annulus/io/run_file.hpp"

namespace annulus::verify {

/// A file with these datasets, to be read from.
io::InspectedFile inspected_file(const std::string& path, const io::FileState& identity,
                                 const std::vector<io::TensorSpec>& datasets);

/// Throws Error(failure) where a dataset is missing or other than it should be, "expected ... WHY". On this rank alone.
void check_datasets(const std::string& path, const std::vector<io::TensorSpec>& datasets, const std::string& why);

/// The result file, with the datasets that it must have; collective. Throws the same Error(failure) on
/// every rank where it is not there, was made with other settings than this run file has now, or lacks a dataset.
io::InspectedFile look_at_result(const io::RunFile& run, const std::vector<io::TensorSpec>& datasets,
                                 const comm::Communicator& comm);

}  // namespace annulus::verify
