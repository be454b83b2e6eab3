// A result file as `verify` finds it.
#pragma once

#include <map>
#include <string>

#include "annulus/io/run_file.hpp"
#include "annulus/io/seen_file.hpp"

namespace annulus::verify {

/// The result file, with the datasets that it must have, by their names; collective. Throws the same Error(failure) on
/// every rank where it is not there, was made with other settings than this run file has now, or lacks a dataset.
io::SeenFile look_at_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets,
                            const comm::Communicator& comm);

/// `tolerance` of this type. Sums in float32 of float64 tensors are right to float32's accuracy only.
double allowed(double (*tolerance)(core::DType), core::DType type, const io::ComputeSettings& compute);

}  // namespace annulus::verify
