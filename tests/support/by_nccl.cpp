// A test program that links this file sends all rows with a fake NCCL (fake_nccl.hpp).
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>

#include "annulus/comm/transport.hpp"
#include "support/fake_nccl.hpp"

namespace annulus::test {
namespace {

class ByNccl final : public testing::Environment {
  void SetUp() override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    device_ = std::make_unique<FakeDevice>(20261122 + std::uint64_t(rank), /*real_kernels=*/true);
    nccl_ = std::make_unique<FakeNccl>();
    functions_ = nccl_->functions();
    comm::transport_by(&functions_, &device_->messages());
  }
  void TearDown() override {
    comm::transport_by(nullptr, nullptr);
    device_->finish();
    EXPECT_GT(nccl_->groups.size(), 0u) << "nothing travelled by NCCL";
    EXPECT_GT(nccl_->made, 0);
    EXPECT_EQ(nccl_->made, nccl_->destroyed + nccl_->aborted) << "a communicator is left";
    EXPECT_EQ(device_->overwritten, 0) << "lines changed while they were copied";
    nccl_.reset();
  }
  std::unique_ptr<FakeDevice> device_;
  std::unique_ptr<FakeNccl> nccl_;
  comm::NcclFunctions functions_;
};

const auto* const by_nccl = testing::AddGlobalTestEnvironment(new ByNccl);

}  // namespace
}  // namespace annulus::test
