// Ranks that wait for a rank that multiplies matrices do not count as stalled. The launch .tcp tests this over TCP,
// where the waiting ranks hear of the other rank only when it calls MPI.
#include <gtest/gtest.h>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/layer/products.hpp"

namespace annulus::layer {
namespace {

TEST(Products, OfOneRankKeepTheOthersWaiting) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const double timeout = 5;  // not shorter, because a busy machine may stop one rank for some seconds
  const comm::Watchdog watchdog(comm, timeout);
  for (const int worker : {0, 1}) {
    if (comm.rank() == worker) {
      core::Buffer x_owner, w_owner, y_owner;
      const Index width = 128;
      const Matrix x = make_matrix(x_owner, "x", core::DType::float32, width, width),
                   w = make_matrix(w_owner, "w", core::DType::float32, width, width),
                   y = make_matrix(y_owner, "y", core::DType::float32, width, width);
      fill(x, 1);
      fill(w, 1);
      Products products(core::DType::float32);
      for (const double end = core::wall_seconds() + 1.5 * timeout; core::wall_seconds() < end;)
        products.forward(x, w, {}, y);
    }
    comm.barrier();
  }
}

}  // namespace
}  // namespace annulus::layer
