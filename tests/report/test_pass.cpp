// run_pass(): an error that all ranks agree on reaches the caller on every rank; a pass returns its time and metrics.
#include "annulus/report/measurements.hpp"

#include <gtest/gtest.h>

namespace annulus::report {
namespace {

TEST(Pass, AnErrorThatAllRanksKnowIsThrownOn) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const auto fails = [&]() -> core::LayerMetrics {
    comm::agree(comm, [&] {
      if (comm.rank() == comm.size() - 1) core::fail(core::ErrorKind::usage, "no room");
    });
    return {};
  };
  try {
    run_pass(comm, "the attention", fails);
    ADD_FAILURE() << "the error was lost";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("no room"), std::string::npos) << error.what();
  }
  EXPECT_EQ(comm.sum(core::Index(1)), comm.size());  // all ranks can still communicate
}

TEST(Pass, TellsItsTimeAndItsWork) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Pass pass = run_pass(comm, "the attention", [] {
    core::LayerMetrics metrics;
    metrics.attention.rows = 7;
    return metrics;
  });
  EXPECT_EQ(pass.metrics.attention.rows, 7);
  EXPECT_GT(pass.seconds, 0);
}

}  // namespace
}  // namespace annulus::report
