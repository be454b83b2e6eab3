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

  /// `index` gives the number's index as text, "[0, 7, 2, 5]"; a callable, because it is rarely needed. `terms` is the
  /// size of what was summed up to the number: where large terms cancel, their rounding is no error of the sum.
  template <class IndexText>
  void compare(double found, double expected, IndexText&& index, double terms = 0) {
    const bool same = found == expected;  // -inf against -inf, too
    const double difference = same ? 0 : std::abs(found - expected);
    if (std::isfinite(expected)) reference = std::max({reference, std::abs(expected), terms});
    if (difference <= error) return;
    // NaN compares as larger than everything.
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    where = index();
  }
  double relative() const { return error / std::max(1.0, reference); }

  /// The largest deviation over all ranks; collective.
  Deviation merged(const comm::Communicator& comm) const {
    Deviation all{comm.max(error), comm.max(reference), ""};
    for (const std::string& index : comm.gather_all(error == all.error ? where : std::string())) {
      if (all.where.empty()) all.where = index;
    }
    return all;
  }
};

}  // namespace annulus::verify
