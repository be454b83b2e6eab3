// Errors of one rank, which must fail the launch: CTest expects that this program does.
#include <gtest/gtest.h>

#include <stdexcept>

#include "annulus/comm/communicator.hpp"

namespace annulus::test {
namespace {

bool planted() { return comm::Communicator(MPI_COMM_WORLD).rank() == 1; }

TEST(Planted, Expectation) { EXPECT_FALSE(planted()); }

// The other ranks wait for this one, which never comes.
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
