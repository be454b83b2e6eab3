// How far found numbers lie from expected ones, and where.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::verify {

/// Largest error and largest reference of one dataset, and where that error is.
struct Deviation {
  double error = 0;
  double reference = 0;
  std::string where;

  /// `place` is what the message calls it, "[0, 7, 2, 5]"; a callable, since it is wanted seldom.
  template <class Place>
  void compare(double found, double expected, Place&& place) {
    const bool same = found == expected;  // -inf against -inf, too
    const double difference = same ? 0 : std::abs(found - expected);
    if (std::isfinite(expected)) reference = std::max(reference, std::abs(expected));
    if (difference <= error) return;
    // NaN compares as larger than everything.
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    where = place();
  }
  double relative() const { return error / std::max(1.0, reference); }

  /// Of all ranks; collective.
  Deviation merged(const comm::Communicator& comm) const {
    Deviation all{comm.max(error), comm.max(reference), ""};
    for (const std::string& place : comm.gather_all(error == all.error ? where : std::string())) {
      if (all.where.empty()) all.where = place;
    }
    return all;
  }
};

}  // namespace annulus::verify
