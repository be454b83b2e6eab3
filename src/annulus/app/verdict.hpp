// What `verify` says of each dataset.
#pragma once

#include <cstdio>
#include <map>
#include <string>

#include "annulus/app/deviation.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/io/seen_file.hpp"

namespace annulus::app {

/// One dataset, how far it may deviate and how far it does.
struct Verdict {
  std::string name;
  double tolerance;
  Deviation deviation;

  bool good() const { return deviation.relative() <= tolerance; }
  void print() const {
    const std::string where = deviation.where.empty() ? "" : ", largest at " + deviation.where;
    std::printf("  %-4s  error %-9.3g tolerance %-9.3g %s%s\n", name.c_str(), deviation.relative(), tolerance,
                good() ? "ok" : "WRONG", where.c_str());
  }
};

/// The result file, with the datasets that it must have, by their names; collective. Throws the same Error(failure) on
/// every rank where it is not there, was made with other settings than this run file has now, or lacks a dataset.
io::SeenFile look_at_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets,
                            const comm::Communicator& comm);

/// `tolerance` of this type. Sums in float32 of float64 tensors are right to float32's accuracy only.
double allowed(double (*tolerance)(core::DType), core::DType type, const io::ComputeSettings& compute);

}  // namespace annulus::app
