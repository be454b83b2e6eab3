// A communicator of MPI in a program that has not started MPI.
#include <gtest/gtest.h>

#include "annulus/annulus.hpp"

#if ANNULUS_HAS_MPI
namespace annulus::test {
namespace {

/// MPI itself would end the program.
TEST(LibraryBeforeMpi, RefusesACommunicatorOfMpi) {
  try {
    const Communicator comm(MPI_COMM_WORLD);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(),
                 "Communicator: MPI has not been started; expected MPI_Init or MPI_Init_thread before it");
  }
}

}  // namespace
}  // namespace annulus::test
#endif
