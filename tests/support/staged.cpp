// A test program that links this file stages all of its messages, with copies that happen late. So its tests also show
// that rows in device memory travel correctly, and that nothing changes the source of a copy before the copy happens.
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>

#include "annulus/comm/host_pool.hpp"
#include "annulus/comm/staging.hpp"
#include "support/fake_device.hpp"

namespace annulus::test {
namespace {

class Staging final : public testing::Environment {
  void SetUp() override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    device_ = std::make_unique<FakeDevice>(20261122 + std::uint64_t(rank), /*real_kernels=*/true);
    comm::stage_by({&device_->to_host(), &device_->to_device()});
  }
  void TearDown() override {
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    comm::stage_by({});
    device_->finish();
    EXPECT_TRUE(ranks == 1 || device_->copies > 0) << "nothing was staged";
    EXPECT_EQ(device_->overwritten, 0) << "lines changed while they were copied";
    EXPECT_EQ(comm::kept_host_bytes(), 0) << "memory of messages that never came back";
  }
  std::unique_ptr<FakeDevice> device_;
};

const auto* const staging = testing::AddGlobalTestEnvironment(new Staging);

}  // namespace
}  // namespace annulus::test
