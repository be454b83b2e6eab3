// What `verify` says of each dataset.
#pragma once

#include <cstdio>
#include <string>

#include "annulus/verify/deviation.hpp"

namespace annulus::verify {

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

}  // namespace annulus::verify
