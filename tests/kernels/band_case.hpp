// Bands of keys as sliding windows make them, for tests of every back end: narrow and wide bands that contain the
// diagonal, lie before it or lie after it.
#pragma once

#include "kernels/awkward_case.hpp"

namespace annulus::test {

inline constexpr core::Band window_bands[] = {{0, 0},
                                              {2, 0},
                                              {0, 3},
                                              {7, 5},
                                              {30, 0},
                                              {40, 25},
                                              {100, 1},
                                              {-4, 30},
                                              {40, -7},
                                              {500, 500},
                                              {-60, 90},
                                              {core::Band::unbounded, 9},
                                              {12, core::Band::unbounded},
                                              {core::Band::unbounded, -20}};

/// The same case where every item has this band.
template <class AnyCase>
AnyCase with_band(AnyCase test, const core::Band& band) {
  for (core::WorkList& list : test.calls) {
    for (core::WorkItem& item : list.items) item.band = band;
  }
  return test;
}

}  // namespace annulus::test
