// Messages with row blocks: some rows of each part, no rows, uneven ranks. Numbers encode rank, part, row and column.
#include <gtest/gtest.h>

#include "annulus/comm/collectives.hpp"
#include "annulus/comm/exchange.hpp"
#include "annulus/comm/watchdog.hpp"
#include "support/stamped_block.hpp"

namespace annulus::comm {
namespace {

using test::Block;
using test::stamp;
using test::width;

/// Every rank sends rows [2, 5) of a block of 7 to the next rank, which receives them as rows [1, 4) of a block of 6.
template <class Run>
void pass_round(const Communicator& comm, Run&& run) {
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  Block own(4, 7), received(4, 6);
  own.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  run(Message{next, own.rows({2, 5})}, Message{before, received.rows({1, 4})});
  for (Index p = 0; p < 4; ++p) {
    for (Index r = 0; r < 6; ++r) {
      for (Index c = 0; c < width; ++c) {
        const double expected = r >= 1 && r < 4 ? stamp(before, p, r + 1, c) : -1.0;
        EXPECT_EQ(received.at(p, r, c), expected) << "part " << p << " row " << r;
      }
    }
  }
}

TEST(Exchange, OverlappedMovesSelectedRowsOfEveryPart) {
  const Communicator comm(MPI_COMM_WORLD);
  Exchange exchange(comm);
  for (int hop = 0; hop < 3; ++hop) {  // one object serves every hop
    pass_round(comm, [&](const Message& send, const Message& receive) {
      exchange.start({send}, {receive}, hop);
      for (int i = 0; i < 5; ++i) exchange.progress();
      exchange.wait();
    });
  }
}

TEST(Exchange, BlockingMovesTheSameAtEvenAndOddNumbersOfRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.size() == 1) {  // one rank has no neighbour and no hops
    Block block(1, 2);
    Exchange(comm).run_blocking({{0, block.rows({})}}, {{0, block.rows({})}}, 0);
    EXPECT_EQ(block.at(0, 1, 1), -1.0);
    return;
  }
  pass_round(comm,
             [&](const Message& send, const Message& receive) { Exchange(comm).run_blocking({send}, {receive}, 0); });
  // MPI sends a large message only when the receive is posted, so ranks that all send first would wait for ever.
  const Watchdog watchdog(comm, 60);
  for (int hop = 1; hop < comm.size(); ++hop) {
    const int next = (comm.rank() + hop) % comm.size(), before = (comm.rank() + comm.size() - hop) % comm.size();
    const Index rows = 100000;
    Block own(1, rows), received(1, rows);
    own.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
    Exchange(comm, Carrier::mpi).run_blocking({{next, own.rows({0, rows})}}, {{before, received.rows({0, rows})}}, 0);
    EXPECT_EQ(received.at(0, rows - 1, 1), stamp(before, 0, rows - 1, 1)) << hop;
  }
}

/// A rank gets a small message while its own large send has no receive yet. The two messages have different `kind`.
TEST(Exchange, WaitsForWhatComesAlone) {
  const Communicator comm(MPI_COMM_WORLD);
  const Watchdog watchdog(comm, 60);  // if tags did not match, ranks would wait for ever
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  const Index rows = 100000;
  Block large(1, rows), small(1, 2), large_in(1, rows), small_in(1, 2);
  large.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  small.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c) + 0.5; });
  Exchange out(comm, Carrier::mpi), in(comm, Carrier::mpi);
  out.start({{next, large.rows({0, rows}), 1024}, {next, small.rows({0, 2}), 2048}},
            {{before, small_in.rows({0, 2}), 2048}}, 3);
  out.wait_received();
  EXPECT_EQ(small_in.at(0, 1, 0), stamp(before, 0, 1, 0) + 0.5);
  comm.barrier();
  in.start({}, {{before, large_in.rows({0, rows}), 1024}}, 3);
  in.wait();
  out.wait();
  EXPECT_EQ(large_in.at(0, rows - 1, 1), stamp(before, 0, rows - 1, 1));
  pass_round(comm, [&](const Message& send, const Message& receive) {  // `out` can be used again
    out.start({send}, {receive}, 4);
    out.wait_received();
    out.wait();
  });
}

TEST(Exchange, EmptyRowsMeanNoMessage) {
  const Communicator comm(MPI_COMM_WORLD);
  Block block(2, 3);
  // Rank 0 sends to the last rank; all other ranks exchange nothing and must not wait.
  const int last = comm.size() - 1;
  const bool sends = comm.rank() == 0 && last > 0, receives = comm.rank() == last && last > 0;
  if (sends) block.fill([](Index p, Index r, Index c) { return stamp(0, p, r, c); });
  Exchange exchange(comm);
  exchange.start({{last, block.rows(sends ? core::Interval{0, 3} : core::Interval{})}},
                 {{0, block.rows(receives ? core::Interval{0, 3} : core::Interval{})}}, 0);
  exchange.progress();
  exchange.wait();
  EXPECT_EQ(block.at(1, 2, 1), sends || receives ? stamp(0, 1, 2, 1) : -1.0);
}

TEST(Exchange, RefusesAStartBeforeTheLastHopIsComplete) {
  const Communicator comm(MPI_COMM_WORLD);
  Block from(1, 2), to(1, 2);
  Exchange exchange(comm);
  const Message send{(comm.rank() + 1) % comm.size(), from.rows({0, 2})};
  const Message receive{(comm.rank() + comm.size() - 1) % comm.size(), to.rows({0, 2})};
  exchange.start({send}, {receive}, 0);
  EXPECT_THROW(exchange.start({send}, {receive}, 1), core::Error);
  exchange.wait();
}

TEST(Allgather, PutsUnevenRowsInOrderInEveryPart) {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<core::Interval> owners;  // rank r holds 2 r rows: rank 0 none
  Index n = 0;
  for (Index r = 0; r < comm.size(); ++r) {
    owners.push_back({n, n + 2 * r});
    n += 2 * r;
  }
  const Index mine = 2 * comm.rank();
  Block own(6, mine), all(6, n);
  own.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  allgather_rows(comm, own.rows({0, mine}), all.rows({0, n}), owners);
  for (Index p = 0; p < 6; ++p) {
    for (Index owner = 0; owner < comm.size(); ++owner) {
      for (Index r = 0; r < 2 * owner; ++r) {
        EXPECT_EQ(all.at(p, owners[std::size_t(owner)].begin + r, 2), stamp(owner, p, r, 2)) << "part " << p;
      }
    }
  }
}

}  // namespace
}  // namespace annulus::comm
