// A test program for GPUs that links this file sends all rows with the NCCL library. NCCL refuses ranks that share a
// GPU. So the ranks of the test pretend to be on different machines.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "annulus/comm/transport.hpp"

namespace annulus::test {
namespace {

class ByNcclLibrary final : public testing::Environment {
  void SetUp() override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setenv("NCCL_HOSTID", ("pretended host " + std::to_string(rank)).c_str(), /*overwrite=*/0);
    setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
    queue_ = core::make_copy_queue();
    comm::transport_by(&comm::nccl_library(), queue_.get());
  }
  void TearDown() override {
    comm::transport_by(nullptr, nullptr);
    queue_.reset();
  }
  std::unique_ptr<core::CopyQueue> queue_;
};

const auto* const by_nccl = testing::AddGlobalTestEnvironment(new ByNcclLibrary);

}  // namespace
}  // namespace annulus::test
