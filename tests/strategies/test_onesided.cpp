// onesided does not wait: while one rank is held, the others do all their hops, which ranks in a ring cannot. The test
// counts hops in shared memory and measures no time. Also: what onesided exposes, prefetches and frees.
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <stdexcept>

#include "annulus/core/memory.hpp"
#include "annulus/strategies/strategy.hpp"
#include "support/attention_case.hpp"
#include "support/shared_counters.hpp"

namespace {

int reads_started = 0;
int barriers = 0;

}  // namespace

// The linker uses these instead of MPI's functions, which are still available under their profiling names.
extern "C" int MPI_Rget(void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
                        int target_count, MPI_Datatype target_type, MPI_Win window, MPI_Request* request) {
  ++reads_started;
  return PMPI_Rget(origin, origin_count, origin_type, target, displacement, target_count, target_type, window, request);
}
extern "C" int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  ++barriers;
  return PMPI_Ibarrier(comm, request);
}

namespace annulus::strategies {
namespace {

constexpr int patience = 60;  // seconds: then a held rank is released even if others are not as far as expected

/// Not causal: if there is one pair, Progress is called once per hop on every rank.
Problem make_problem(Index n, std::vector<pattern::Pair> pairs) {
  Problem problem;
  problem.shape = {1, n, 2, 2, 8};
  problem.scale = 1 / std::sqrt(8.0);
  problem.pattern = {pattern::Semantics::longnet, std::move(pairs), false, false};
  problem.documents = {0, n};
  problem.backend = kernels::default_backend();
  problem.partition = pattern::PartitionKind::contiguous;
  return problem;
}

Tensors make_tensors(const Problem& problem, const pattern::StoredRows& rows) {
  const core::Shape& s = problem.shape;
  const auto take = [&](core::TensorId tensor, Index heads) {
    const auto whole = test::random_values(tensor, s.batch * s.sequence * heads * s.head_dim, problem.type);
    return test::to_storage(test::take_rows(whole, s.batch, s.sequence, rows.intervals()), problem.type);
  };
  const auto q = take(core::TensorId::q, s.heads), k = take(core::TensorId::k, s.kv_heads),
             v = take(core::TensorId::v, s.kv_heads);
  Tensors tensors{core::Buffer("q", Index(q.size())), core::Buffer("kv", Index(k.size() + v.size())), {}, {}};
  core::copy_to_device(tensors.q.data(), q.data(), Index(q.size()));
  core::copy_to_device(tensors.kv.data(), k.data(), Index(k.size()));
  core::copy_to_device(tensors.kv.at(Index(k.size())), v.data(), Index(v.size()));
  return tensors;
}

/// Runs one forward pass on all ranks; returns the rank's `out`.
std::vector<double> forward(const char* name, const Problem& problem, const comm::Communicator& comm,
                            const Progress& progress) {
  const Strategy& strategy = *find(name);
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = make_tensors(problem, rows);
  strategy.forward(problem, partition, comm, tensors, progress);
  return test::from_device(tensors.out, rows.count() * problem.shape.heads * problem.shape.head_dim, problem.type);
}

/// Runs both passes on all ranks, the forward pass without `progress`; returns the rank's dq, dK and dV.
std::vector<double> backward(const char* name, Problem problem, const comm::Communicator& comm,
                             const Progress& progress) {
  problem.gradients = true;
  const Strategy& strategy = *find(name);
  const core::Shape& s = problem.shape;
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = make_tensors(problem, rows);
  tensors.dout = make_tensors(problem, rows).q;
  strategy.forward(problem, partition, comm, tensors, {});
  strategy.backward(problem, partition, comm, tensors, progress);
  std::vector<double> all = test::from_device(tensors.dq, rows.count() * s.heads * s.head_dim, problem.type);
  const auto keys = test::from_device(tensors.dkv, 2 * rows.count() * s.kv_heads * s.head_dim, problem.type);
  all.insert(all.end(), keys.begin(), keys.end());
  return all;
}

/// Runs the strategy. Holds rank `held` after its own rows until every other rank r has done reachable[r] hops. On that
/// rank, returns the hops that every rank had done by then. With `helping` the held rank lets MPI make progress
/// meanwhile, like a rank whose kernel polls; otherwise it makes no MPI calls.
std::vector<int> hops_while_held(const char* name, const comm::Communicator& comm, int held, bool helping,
                                 const std::vector<int>& reachable, bool is_backward = false) {
  const comm::Communicator idle(comm.handle());  // a probe here finds no messages of the passes
  test::SharedCounters done(comm);
  std::vector<int> seen;
  const auto look_once = [&] {
    int flag = 0;
    if (helping) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, idle.handle(), &flag, MPI_STATUS_IGNORE);
    sched_yield();
    bool all = true;
    for (int r = 0; r < comm.size(); ++r) all = all && (r == held || done[r] >= reachable[std::size_t(r)]);
    return all;
  };
  const auto run = [&](const Progress& progress) {
    const Problem problem = make_problem(24, {{}});
    is_backward ? backward(name, problem, comm, progress) : forward(name, problem, comm, progress);
  };
  run([&](double, const std::string&) {
    if (++done[comm.rank()] > 1 || comm.rank() != held) return;
    const double start = core::wall_seconds();
    while (!look_once() && core::wall_seconds() - start < patience) continue;
    for (int i = 0; i < 1000; ++i) look_once();  // ranks that can go further get time to do so
    for (int r = 0; r < comm.size(); ++r) seen.push_back(done[r]);
  });
  EXPECT_EQ(done[comm.rank()], comm.size()) << "once released, every rank does all its hops";
  comm.barrier();  // before counters are freed
  return seen;
}

TEST(Onesided, RanksFinishAllTheirHopsWhileOneIsHeld) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const int p = comm.size();
  for (const bool is_backward : {false, true}) {
    for (int held = 0; held < p; ++held) {
      std::vector<int> expected(std::size_t(p), p);
      const std::vector<int> seen = hops_while_held("onesided", comm, held, false, expected, is_backward);
      if (comm.rank() != held) continue;
      expected[std::size_t(held)] = 1;
      EXPECT_EQ(seen, expected) << "held: rank " << held << (is_backward ? ", backward" : "");
    }
  }
}

TEST(Ring, RanksWaitForTheOneThatIsHeld) {
  // The held rank has sent its own rows but forwards nothing. So the rank at distance k after it gets rows k times and
  // then waits. Only the rank just before the held rank finishes, because it needs no rows that the held rank forwards.
  const comm::Communicator comm(MPI_COMM_WORLD);
  const int p = comm.size(), held = p / 2;
  std::vector<int> expected;
  for (int r = 0; r < p; ++r) expected.push_back(1 + (r - held + p) % p);
  const std::vector<int> seen = hops_while_held("ring", comm, held, true, expected);
  if (comm.rank() != held) return;
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), p), 1) << "of " << p << " ranks";
}

TEST(Onesided, AHeldRankChangesNoBit) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Problem problem = make_problem(41, {{8, 1}, {pattern::whole_document, 3}});
  const std::vector<double> expected = forward("onesided", problem, comm, {});
  int calls = 0;
  const auto stumble = [&](double, const std::string&) {
    for (int i = 0; i < 200 * ((comm.rank() + ++calls) % 3); ++i) sched_yield();
  };
  EXPECT_EQ(forward("onesided", problem, comm, stumble), expected);
  EXPECT_GT(calls, 0);
}

TEST(Onesided, AHeldRankChangesNoGradient) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Problem problem = make_problem(41, {{8, 1}, {pattern::whole_document, 3}});
  const std::vector<double> expected = backward("rotation", problem, comm, {});
  int calls = 0;
  const auto stumble = [&](double, const std::string&) {
    for (int i = 0; i < 200 * ((comm.rank() + ++calls) % 3); ++i) sched_yield();
  };
  const std::vector<double> found = backward("onesided", problem, comm, stumble);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  EXPECT_GT(calls, 0);
}

TEST(Onesided, ReadsTwoOwnersAheadAndMeetsTheOthersAtItsWindowsOnly) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const int owners = comm.size() - 1;
  int hop = 0;
  reads_started = 0;
  barriers = 0;
  forward("onesided", make_problem(24, {{}}), comm, [&](double, const std::string&) {
    EXPECT_EQ(reads_started, std::min(hop + 2, owners)) << "at hop " << hop;
    ++hop;
  });
  EXPECT_EQ(hop, owners + 1);
  EXPECT_EQ(reads_started, owners);
  EXPECT_EQ(barriers, 3) << "before the windows are made, when they are filled, before they are freed";
}

TEST(Onesided, ExposesAndBuffersWhatIsReadOnly) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Index p = comm.size(), row_bytes = 2 * 2 * 8 * 4;  // K and V, 2 heads, 8 numbers
  const auto peak = [&](const Problem& problem, const std::string& purpose) {
    core::memory_ledger().reset_peak();
    forward("onesided", problem, comm, {});
    return core::memory_ledger().peak_by_purpose()[purpose];
  };
  const Problem inside = make_problem(12 * p, {{12, 1}, {6, 2}}), dense = make_problem(12 * p, {{}});
  EXPECT_EQ(peak(inside, "kv window"), 0) << "segments lie inside ranks";
  EXPECT_EQ(peak(inside, "prefetch buffers"), 0);
  EXPECT_EQ(peak(dense, "kv window"), p > 1 ? 12 * row_bytes : 0);
  EXPECT_EQ(peak(dense, "prefetch buffers"), std::min<Index>(3, p - 1) * 12 * row_bytes);
  core::memory_ledger().reset_peak();
  EXPECT_EQ(core::memory_ledger().peak_by_purpose()["kv window"], 0) << "windows are freed";
  EXPECT_EQ(core::memory_ledger().peak_by_purpose()["prefetch buffers"], 0);
}

TEST(Onesided, HasAWindowForSumsOfRowsThatAreRead) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Index p = comm.size(), row_bytes = 2 * 2 * 8 * 4;  // dK and dV, 2 heads, 8 numbers
  const auto peak = [&](const Problem& problem, const std::string& purpose) {
    core::memory_ledger().reset_peak();
    backward("onesided", problem, comm, {});
    return core::memory_ledger().peak_by_purpose()[purpose];
  };
  EXPECT_EQ(peak(make_problem(12 * p, {{12, 1}, {6, 2}}), "gradient window"), 0) << "segments lie inside ranks";
  EXPECT_EQ(peak(make_problem(12 * p, {{}}), "gradient window"), p > 1 ? 12 * row_bytes : 0);
  core::memory_ledger().reset_peak();
  EXPECT_EQ(core::memory_ledger().peak_by_purpose()["gradient window"], 0) << "windows are freed";
}

TEST(Errors, AnErrorInAHopLeavesWithoutWaitingForOthers) {
  for (const char* name : {"onesided", "allgather_overlap"}) {
    const comm::Communicator world(MPI_COMM_WORLD);
    test::SharedCounters left(world);
    {
      // Rank 0 fails after its own rows. The others are held until rank 0 has left the pass; then they fail, too.
      const comm::Communicator comm(MPI_COMM_WORLD);
      const auto fail = [&](double, const std::string&) {
        while (comm.rank() > 0 && left[0] == 0) sched_yield();
        throw std::runtime_error("in a hop");
      };
      EXPECT_THROW(forward(name, make_problem(24, {{}}), comm, fail), std::runtime_error) << name;
      left[comm.rank()] = 1;
      world.barrier();
    }
    const std::vector<double> after = forward(name, make_problem(24, {{}}), world, {});
    const std::vector<double> expected = forward("allgather", make_problem(24, {{}}), world, {});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(after[i], expected[i], 1e-5) << name;
  }
}

}  // namespace
}  // namespace annulus::strategies
