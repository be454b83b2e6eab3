// Which functions of NCCL annulus calls, and how NCCL's errors end a run; with a fake library (support/fake_nccl.hpp).
// comm_by_nccl tests what messages carry: it runs the tests of messages with the same fake library.
#include <gtest/gtest.h>

#include <algorithm>

#include "annulus/comm/communicator.hpp"
#include "annulus/comm/record.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/core/buffer.hpp"
#include "support/fake_nccl.hpp"

namespace annulus::comm {
namespace {

using test::FakeDevice;
using test::FakeNccl;

struct World {
  World() : device(9, true), functions(nccl.functions()), comm(MPI_COMM_WORLD) {}
  int next() const { return core::wrap(comm.rank() + 1, comm.size()); }
  int before() const { return core::wrap(comm.rank() - 1, comm.size()); }

  FakeDevice device;
  FakeNccl nccl;
  NcclFunctions functions;
  const Communicator comm;  // destroyed first, because its channel uses the members above
};

/// All of `numbers` as one message.
NcclMessage all_of(int peer, std::vector<int>& numbers) {
  return {peer, {{numbers.data(), Index(numbers.size() * sizeof(int)), 1, 0}}};
}

TEST(Nccl, AsksForReceivesThenSendsInOneGroupAndForNothingWhereNothingTravels) {
  World s;
  NcclChannel channel(s.comm, s.functions, s.device.messages());
  std::vector<int> out{s.comm.rank(), 2, 3}, in(3), none;
  const auto empty = channel.start({all_of(s.next(), none)}, {all_of(s.before(), none)});
  EXPECT_TRUE(channel.is_over(*empty));
  const auto group = channel.start({all_of(s.next(), out)}, {all_of(s.before(), in)});
  channel.wait({empty, group});
  EXPECT_EQ(in, (std::vector<int>{s.before(), 2, 3}));
  using Calls = std::vector<FakeNccl::Call>;
  EXPECT_EQ(s.nccl.groups, (std::vector<Calls>{{{false, s.before(), 12}, {true, s.next(), 12}}}));
}

// Lines that are not contiguous travel packed, as one message; the receiver may have them in another shape.
TEST(Nccl, LinesThatLieApartAreOneMessage) {
  World s;
  NcclChannel channel(s.comm, s.functions, s.device.messages());
  std::vector<int> out(12), in(12, -1);
  for (int i = 0; i < 12; ++i) out[std::size_t(i)] = 100 * s.comm.rank() + i;
  // Columns 1 and 2 of a (3, 4) array become rows 0 and 2 of a (4, 3) array.
  const NcclMessage send{s.next(), {{out.data() + 1, 8, 3, 16}}};
  const NcclMessage receive{s.before(), {{in.data(), 12, 1, 0}, {in.data() + 6, 12, 1, 0}}};
  channel.wait({channel.start({send}, {receive})});
  const int b = 100 * s.before();
  EXPECT_EQ(in, (std::vector<int>{b + 1, b + 2, b + 5, -1, -1, -1, b + 6, b + 9, b + 10, -1, -1, -1}));
  ASSERT_EQ(s.nccl.groups.size(), 1u);
  EXPECT_EQ(s.nccl.groups[0].size(), 2u);
}

// NCCL works on one group at a time, so a group that is started meanwhile must wait. The fake library refuses calls
// while it is busy.
TEST(Nccl, GroupsTakeTurns) {
  World s;
  NcclChannel channel(s.comm, s.functions, s.device.messages());
  std::vector<std::vector<int>> out(8), in(8, std::vector<int>(2));
  std::vector<std::shared_ptr<NcclGroup>> groups;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = {s.comm.rank(), int(i)};
    groups.push_back(channel.start({all_of(s.next(), out[i])}, {all_of(s.before(), in[i])}));
  }
  channel.wait({groups[7]});
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(in[i], (std::vector<int>{s.before(), int(i)}));
  channel.wait(groups);
  EXPECT_EQ(s.nccl.groups.size(), 8u);
}

// Kernels run late here. A message carries what the kernels before it have written, and the kernels that are launched
// after the wait see the received rows.
TEST(Nccl, MessagesGoBetweenTheKernelsBeforeAndBehind) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World s;
    FakeDevice device(seed, /*real_kernels=*/false);
    NcclChannel channel(s.comm, s.functions, device.messages());
    std::vector<int> out(4, 0), in(4, 0), seen;
    device.launch([&] { std::fill(out.begin(), out.end(), 7 + s.comm.rank()); });
    NcclMessage apart{s.next(), {{out.data(), 4, 2, 8}}}, here{s.before(), {{in.data(), 4, 2, 8}}};
    channel.wait({channel.start({apart}, {here})});
    device.launch([&] { seen = in; });
    device.finish();
    EXPECT_EQ(seen, (std::vector<int>{7 + s.before(), 0, 7 + s.before(), 0})) << "seed " << seed;
  }
}

// A rank that waits for something else must still hand its groups to NCCL. Otherwise ranks could wait for ever.
TEST(Nccl, GroupsGoOnInOtherWaits) {
  World s;
  NcclChannel channel(s.comm, s.functions, s.device.messages());
  std::vector<int> out{s.comm.rank()}, in(1, -1);
  const auto group = channel.start({all_of(s.next(), out)}, {all_of(s.before(), in)});
  EXPECT_TRUE(s.nccl.is_busy());
  int looks = 0;
  wait_until([&] { return ++looks > 20; }, [] { return std::vector<Outstanding>{}; });  // no wait for NCCL
  EXPECT_FALSE(s.nccl.is_busy());
  channel.wait({group});
  EXPECT_EQ(in[0], s.before());
}

TEST(Nccl, AChannelBelongsToItsCommunicator) {
  World s;
  transport_by(&s.functions, &s.device.messages());
  {
    const Communicator other(MPI_COMM_WORLD);
    NcclChannel* const channel = channel_of(other);
    ASSERT_NE(channel, nullptr);
    EXPECT_EQ(channel_of(other), channel);
    EXPECT_EQ(s.nccl.made, 1);
    EXPECT_NE(channel_of(s.comm), channel);
    EXPECT_EQ(s.nccl.made, 2);
    EXPECT_EQ(s.nccl.destroyed, 0);
  }
  EXPECT_EQ(s.nccl.destroyed, 1) << "with its communicator";
  transport_by(nullptr, nullptr);
  EXPECT_EQ(channel_of(s.comm), nullptr);
}

TEST(Nccl, AnErrorEndsAWaitWithItsWordsAndTheChannelIsAborted) {
  World s;
  std::vector<int> out{1}, in{0};
  try {
    NcclChannel channel(s.comm, s.functions, s.device.messages());
    s.nccl.fails_now = true;
    channel.wait({channel.start({all_of(s.next(), out)}, {all_of(s.before(), in)})});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::failure);
    EXPECT_NE(std::string(error.what()).find(fmt::format("rank {}: result 2", s.comm.rank())), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(s.nccl.aborted, 1);
  EXPECT_EQ(s.nccl.destroyed, 0);
}

// A wait for NCCL is recorded, so that the watchdog can end a stalled run, and the rank can say for which rank it
// waits.
TEST(Nccl, AWaitIsWatchedAndNamesPeersAndBytes) {
  World s;
  int looks = 0;
  std::string told;
  NcclChannel channel(s.comm, s.functions, s.device.messages());
  s.functions.state = [&, state = s.functions.state](void* handle, int* found) {
    if (++looks < 50) return *found = nccl_in_progress, nccl_success;
    if (told.empty()) told = record().text();
    return state(handle, found);
  };
  std::vector<int> out{1, 2, 3}, in(3);
  channel.wait({channel.start({all_of(s.next(), out)}, {all_of(s.before(), in)})});
  EXPECT_NE(told.find("waiting"), std::string::npos) << told;
  EXPECT_NE(
      told.find(fmt::format("receive of 12 bytes from rank {}, send of 12 bytes to rank {}", s.before(), s.next())),
      std::string::npos)
      << told;
}

TEST(Nccl, ACommunicatorThatCannotBeMadeIsAnErrorOnAllRanks) {
  World s;
  s.functions.make_id = [](auto*) { return FakeNccl::system_error; };
  EXPECT_THROW(NcclChannel(s.comm, s.functions, s.device.messages()), AgreedError);
  EXPECT_EQ(s.nccl.made, 0);
}

TEST(Transport, TwoRanksOnOneGpuAreRefusedByName) {
  EXPECT_NO_THROW(require_own_gpus({{"a", "0000:01:00.0"}, {"a", "0000:02:00.0"}, {"b", "0000:01:00.0"}}));
  try {
    require_own_gpus({{"a", "0000:01:00.0"}, {"b", "0000:01:00.0"}, {"a", "0000:02:00.0"}, {"b", "0000:01:00.0"}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("ranks 1, 3 share GPU 0000:01:00.0 of b"), std::string::npos)
        << error.what();
  }
}

TEST(Transport, BuildsForHostThreadsRefuseNcclAndSayWhatIsMissing) {
  const Communicator comm(MPI_COMM_WORLD);
  EXPECT_EQ(nccl_in_use(), "");
  choose_transport(Transport::mpi, comm);
  try {
    choose_transport(Transport::nccl, comm);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("host threads"), std::string::npos) << error.what();
  }
  EXPECT_EQ(channel_of(comm), nullptr);
}

}  // namespace
}  // namespace annulus::comm
