// Buffer races of strategies that move K and V in hops. Every receive buffer is filled with NaN when a receive
// into it is posted, and random sends and receives start late. A strategy that reads a buffer before its rows
// have arrived, or after the buffer was reused, gets NaN instead of numbers. Results must not change by a
// bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/strategy.hpp"
#include "support/attention_case.hpp"
#include "support/random_layout.hpp"

namespace {

/// While it lives, fills receive buffers with NaN and delays sends and receives. Delays depend on rank and seed.
class Trouble {
 public:
  Trouble(std::uint64_t seed, int rank) : random_(seed * 1000 + std::uint64_t(rank)) { current = this; }
  ~Trouble() { current = nullptr; }
  Trouble(const Trouble&) = delete;
  Trouble& operator=(const Trouble&) = delete;

  /// Fills the rows that will be received with bytes 0xff: NaN in every storage type.
  void before_receive(void* rows, int count, MPI_Datatype type, MPI_Comm comm) {
    ++receives;
    int bytes = 0, position = 0;
    MPI_Type_size(type, &bytes);
    const std::vector<unsigned char> nan(std::size_t(count) * std::size_t(bytes), 0xff);
    MPI_Unpack(nan.data(), int(nan.size()), &position, rows, count, type, comm);
    dawdle();
  }
  void dawdle() {
    if (random_() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
  }

  static inline Trouble* current = nullptr;
  annulus::core::Index receives = 0;

 private:
  std::mt19937_64 random_;
};

}  // namespace

extern "C" int MPI_Irecv(void* rows, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  if (Trouble::current != nullptr) Trouble::current->before_receive(rows, count, type, comm);
  return PMPI_Irecv(rows, count, type, peer, tag, comm, request);
}
extern "C" int MPI_Isend(const void* rows, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  if (Trouble::current != nullptr) Trouble::current->dawdle();
  return PMPI_Isend(rows, count, type, peer, tag, comm, request);
}

namespace annulus::strategies {
namespace {

Problem make_problem(core::Shape shape, pattern::Pattern pattern, std::optional<pattern::PartitionKind> partition) {
  Problem problem;
  problem.shape = shape;
  problem.scale = 1 / std::sqrt(double(shape.head_dim));
  problem.pattern = std::move(pattern);
  problem.documents = {0, shape.sequence};
  problem.backend = kernels::default_backend();
  problem.partition = partition;
  return problem;
}

/// This rank's inputs.
Tensors make_tensors(const Problem& problem, const pattern::StoredRows& rows) {
  const test::AttentionCase numbers{problem.shape, test::reference_pattern(problem.layout(), problem.scale),
                                    problem.type, 3, 1};
  const core::Shape& s = problem.shape;
  const auto stored = [&](const std::vector<double>& whole) {
    return test::to_storage(test::take_rows(whole, s.batch, s.sequence, rows.intervals()), problem.type);
  };
  const auto q = stored(numbers.q()), k = stored(numbers.k()), v = stored(numbers.v()), dout = stored(numbers.dout());
  Tensors tensors{core::Buffer("q", Index(q.size())), core::Buffer("kv", Index(k.size() + v.size())), {}, {}};
  tensors.dout = core::Buffer("dout", Index(dout.size()));
  core::copy_to_device(tensors.q.data(), q.data(), Index(q.size()));
  core::copy_to_device(tensors.kv.data(), k.data(), Index(k.size()));
  core::copy_to_device(tensors.kv.at(Index(k.size())), v.data(), Index(v.size()));
  core::copy_to_device(tensors.dout.data(), dout.data(), Index(dout.size()));
  return tensors;
}

std::vector<std::byte> bytes_of(const core::Buffer& first, const core::Buffer& second) {
  std::vector<std::byte> all(std::size_t(first.bytes() + second.bytes()));
  core::copy_to_host(all.data(), first.data(), first.bytes());
  core::copy_to_host(all.data() + first.bytes(), second.data(), second.bytes());
  return all;
}

/// This rank's out and lse, as stored.
std::vector<std::byte> result(const Strategy& strategy, const Problem& problem, const comm::Communicator& comm) {
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  Tensors tensors = make_tensors(problem, partition[std::size_t(comm.rank())]);
  strategy.forward(problem, partition, comm, tensors, {});
  return bytes_of(tensors.out, tensors.lse);
}

/// This rank's dq, dk and dv, as stored. `tensors` has the results of a forward pass.
std::vector<std::byte> gradients(const Strategy& strategy, const Problem& problem, const comm::Communicator& comm,
                                 Tensors tensors) {
  strategy.backward(problem, strategy.partition(problem, comm.size()), comm, tensors, {});
  return bytes_of(tensors.dq, tensors.dkv);
}

class Races : public testing::TestWithParam<const char*> {};

TEST_P(Races, PoisonedBuffersAndLateMessagesChangeNoBit) {
  using pattern::PartitionKind;
  using pattern::Semantics;
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Strategy& strategy = *find(GetParam());
  const Index all = pattern::whole_document;
  const Problem problems[] = {
      make_problem({2, 97, 4, 2, 24}, {Semantics::longnet, {{all, 1}}, false, false}, PartitionKind::contiguous),
      make_problem({1, 203, 3, 3, 16}, {Semantics::longnet, {{64, 1}, {all, 3}}, true, false}, PartitionKind::zigzag),
      // Messages much larger than those that MPI sends without a handshake: K and V, 2 heads, 700 rows, 64 float32.
      make_problem({1, 700 * comm.size(), 2, 2, 64}, {Semantics::longnet, {{all, 1}}, false, false},
                   PartitionKind::contiguous),
  };
  Index receives = 0;
  for (const Problem& problem : problems) {
    const std::vector<std::byte> expected = result(strategy, problem, comm);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      Trouble trouble(seed, comm.rank());
      EXPECT_EQ(result(strategy, problem, comm), expected)
          << strategy.name() << ", n = " << problem.shape.sequence << ", seed " << seed;
      receives += trouble.receives;
    }
  }
  EXPECT_GE(receives, 3 * 8 * (comm.size() - 1)) << "nothing was poisoned";
}

/// Every rank must receive at least `messages` messages, with K and V or with gradients, in each backward pass.
void check_gradients(const Strategy& strategy, const comm::Communicator& comm, Index messages,
                     bool reproducible = false) {
  using pattern::PartitionKind;
  using pattern::Semantics;
  const Index all = pattern::whole_document;
  const Problem problems[] = {
      make_problem({2, 97, 4, 2, 24}, {Semantics::longnet, {{all, 1}}, false, false}, PartitionKind::contiguous),
      // Rows whose sums leave in two directions: some are forwarded round the ring, some return.
      make_problem({1, 203, 3, 3, 16}, {Semantics::paper, {{64, 1}, {all, 3}, {120, 4}}, false, false},
                   PartitionKind::zigzag),
      // Messages much larger than those that MPI sends without a handshake.
      make_problem({1, 300 * comm.size(), 2, 2, 64}, {Semantics::longnet, {{all, 1}}, true, false},
                   PartitionKind::zigzag),
  };
  for (Problem problem : problems) {
    problem.gradients = true;
    if (reproducible) {
      problem.reproducible = true;
      problem.partition = PartitionKind::contiguous;
    }
    const pattern::Partition partition = strategy.partition(problem, comm.size());
    Tensors tensors = make_tensors(problem, partition[std::size_t(comm.rank())]);
    strategy.forward(problem, partition, comm, tensors, {});
    const std::vector<std::byte> expected = gradients(strategy, problem, comm, tensors);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      Trouble trouble(seed, comm.rank());
      EXPECT_EQ(gradients(strategy, problem, comm, tensors), expected)
          << strategy.name() << ", n = " << problem.shape.sequence << ", seed " << seed;
      EXPECT_GE(trouble.receives, messages) << "something was not poisoned";
    }
  }
}

TEST_P(Races, GradientsKeepTheirBitsToo) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  check_gradients(*find(GetParam()), comm, 2 * (comm.size() - 1));
}

TEST(GatherRaces, GradientsKeepTheirBitsToo) {  // K and V do not come in hops
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const char* name : {"allgather", "allgather_overlap"}) check_gradients(*find(name), comm, comm.size() - 1);
}

TEST(OrderedRaces, GradientsKeepTheirBitsToo) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const char* name : {"ring", "rotation", "ring_blocking", "allgather"}) {
    // Causal: rank 0 receives only its own sums when they return; sums of the last rank's rows never leave it.
    check_gradients(*find(name), comm, 1, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Hops, Races, testing::Values("ring", "ring_bidirectional", "rotation", "ring_blocking"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace annulus::strategies
