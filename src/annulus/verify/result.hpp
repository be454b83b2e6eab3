// Opens and checks the result file that `verify` reads.
#pragma once

#include <vector>

#include "annulus/runfile/run_file.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/result_layout.hpp"

namespace annulus::verify {

/// Reads the run file that a result was made with. Local. Throws Error(failure) if the file is no result.
runfile::RunFile settings_of_result(const std::string& file);

/// Returns the description that functions of the room store need to read these datasets. Does not open the file.
store::InspectedFile inspected_file(const std::string& path, const store::FileState& identity,
                                    const std::vector<store::TensorSpec>& datasets);

/// Throws Error(failure), "expected ... WHY", if a dataset is missing, or has another type or shape. Local.
void check_datasets(const std::string& path, const std::vector<store::TensorSpec>& datasets, const std::string& why);

/// Checks the run's result file, which must have these datasets, and returns its description. Collective. Throws the
/// same Error(failure) on every rank if the file is missing, was made with settings other than the run file's, is a
/// result of `train`, or has a dataset missing or of another type or shape.
store::InspectedFile open_result(const runfile::RunFile& run, const std::vector<store::TensorSpec>& datasets,
                                 const comm::Communicator& comm);

}  // namespace annulus::verify
