// Errors of one rank that must make the launch fail; CTest expects that this program fails.
#include <gtest/gtest.h>

#include <stdexcept>

#include "annulus/comm/communicator.hpp"

namespace annulus::test {
namespace {

bool planted() { return comm::Communicator(MPI_COMM_WORLD).rank() == 1; }

TEST(Planted, Expectation) { EXPECT_FALSE(planted()); }

// Ranks 0 and 2 wait for rank 1 in a collective that rank 1 never reaches.
TEST(Planted, Assertion) {
  ASSERT_FALSE(planted());
  comm::Communicator(MPI_COMM_WORLD).barrier();
}

TEST(Planted, Exception) {
  if (planted()) throw std::runtime_error("planted");
  comm::Communicator(MPI_COMM_WORLD).barrier();
}

}  // namespace
}  // namespace annulus::test
