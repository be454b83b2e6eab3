// MPI windows: reads of rows of other ranks (also uneven and empty reads), additions to rows of other ranks, and the
// memory that windows take.
#include "annulus/comm/window.hpp"

#include <gtest/gtest.h>

#include "annulus/comm/window_room.hpp"
#include "annulus/core/memory.hpp"
#include "support/stamped_block.hpp"

namespace annulus::comm {
namespace {

using test::Block;
using test::row_bytes;
using test::stamp;
using test::width;

constexpr Index parts = 3;

TEST(WindowRoom, IsKnownAndTellsWhatIsMissing) {
  const WindowRoom here = window_room();
  EXPECT_FALSE(here.folder.empty());
  EXPECT_GT(here.bytes, 0) << here.folder;
  EXPECT_EQ(window_lack(100, {"/a", -1}), "") << "nothing is known";
  EXPECT_EQ(window_lack(100 << 20, {"/a", 105 << 20}), "");
  const std::string lack = window_lack(100 << 20, {"/a", (105 << 20) - 1});
  for (const char* word : {"105.0 MiB", "/a has", "--shm-size", "onesided"}) {
    EXPECT_NE(lack.find(word), std::string::npos) << lack;
  }
}

TEST(WindowRoom, OfANodeIsSharedByItsRanksAndMissedByAllOfThem) {
  const Communicator comm(MPI_COMM_WORLD);
  const Index ranks = comm.size(), all = ranks * (ranks + 1) / 2 * 1000;
  const Index own = 1000 * (comm.rank() + 1);
  EXPECT_EQ(comm.sum_of_node(own), all);
  EXPECT_NO_THROW(require_window_room(comm, own, {"/a", all + all / 20}));
  try {
    require_window_room(comm, own, {"/a", all + all / 20 - 1});
    ADD_FAILURE() << "rank " << comm.rank() << " was let through";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("/a has"), std::string::npos) << error.what();
    EXPECT_EQ(error.kind(), core::ErrorKind::failure);
  }
}

Index held_by(int rank) { return 10 * rank; }  // rank 0 offers nothing

/// A published window with this rank's stamped rows.
struct Offer {
  explicit Offer(const Communicator& comm)
      : block(parts, held_by(comm.rank())), window(comm, "test window", block.memory.bytes()) {
    block.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
    window.write(0, block.memory.data(), block.memory.bytes());
    window.publish();
  }
  Block block;
  Window window;
};

/// The numbers in the rows of `runs`, in the order in which they must arrive.
std::vector<double> expected_of(int owner, const std::vector<RowRun>& runs) {
  std::vector<double> values;
  for (Index p = 0; p < parts; ++p) {
    for (const RowRun& run : runs) {
      for (Index i = 0; i < run.count; ++i) {
        for (Index c = 0; c < width; ++c) values.push_back(stamp(owner, p, run.from + i * run.stride, c));
      }
    }
  }
  return values;
}

TEST(Window, ReadsRunsOfEveryPartFromEveryRank) {
  const Communicator comm(MPI_COMM_WORLD);
  Offer offer(comm);
  const std::vector<RowRun> runs{{1, 4, 3}, {0, 1, 4}, {8, 3, 1}};  // 1 5 9, 0 1 2 3, 8: not ascending, 1 twice
  WindowRead first(offer.window), second(offer.window);
  for (int owner = 1; owner < comm.size(); ++owner) {  // `owner` may be this rank
    Block into(parts, 8), alone(parts, 1);
    EXPECT_EQ(first.start(owner, held_by(owner), runs, into.rows({0, 8})), parts * 8 * row_bytes);
    EXPECT_EQ(second.start(owner, held_by(owner), {{7, 1, 1}}, alone.rows({0, 1})), parts * row_bytes);
    for (int i = 0; i < 3; ++i) first.progress();
    second.wait();
    first.wait();
    EXPECT_EQ(into.values(), expected_of(owner, runs));
    EXPECT_EQ(alone.values(), expected_of(owner, {{7, 1, 1}}));
  }
  offer.window.close();
}

TEST(Window, SelectedRowsOfTheTargetOnly) {
  const Communicator comm(MPI_COMM_WORLD);
  Offer offer(comm);
  const int owner = comm.size() - 1;
  if (owner > 0) {
    Block into(parts, 5);
    WindowRead read(offer.window);
    read.start(owner, held_by(owner), {{2, 2, 2}}, into.rows({1, 3}));
    read.wait();
    for (Index p = 0; p < parts; ++p) {
      for (Index r = 0; r < 5; ++r) {
        EXPECT_EQ(into.at(p, r, 1), r == 1 || r == 2 ? stamp(owner, p, 2 * r, 1) : -1.0) << "row " << r;
      }
    }
  }
  offer.window.close();
}

TEST(Window, AReadOfNothingIsNoMessage) {
  const Communicator comm(MPI_COMM_WORLD);
  Offer offer(comm);
  Block into(parts, 2);
  WindowRead read(offer.window);
  EXPECT_EQ(read.start(0, 0, {}, into.rows({})), 0);
  read.progress();
  read.wait();
  EXPECT_EQ(into.at(2, 1, 2), -1.0);
  offer.window.close();
}

TEST(Window, AddsFromAllRanksAtOnceAreNotLost) {
  const Communicator comm(MPI_COMM_WORLD);
  constexpr Index held = 12, rounds = 20;
  const Index bytes = parts * held * row_bytes;
  Window window(comm, "test window", bytes);
  Block from(parts, 7);
  from.fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  window.write(0, from.memory.data(), from.memory.bytes());
  window.clear();
  window.publish();
  // Rows 1 4 7 and 4 5. Row 4 occurs twice, although one MPI access must not name a location twice.
  const std::vector<RowRun> runs{{1, 3, 3}, {4, 1, 2}};
  WindowAdd add(window);
  for (Index round = 0; round < rounds; ++round) {
    for (int owner = 0; owner < comm.size(); ++owner) {
      add.start(owner, held, runs, from.rows({1, 6}), core::Precision::float64);
      add.progress();
      add.wait();
    }
  }
  window.collect();
  Block sums(parts, held);
  window.read(0, sums.memory.data(), bytes);
  window.close();
  for (Index p = 0; p < parts; ++p) {
    for (Index c = 0; c < width; ++c) {
      for (Index r = 0; r < held; ++r) {
        double expected = 0;
        for (int rank = 0; rank < comm.size(); ++rank) {
          const auto row = [&](Index i) { return double(rounds) * stamp(rank, p, i, c); };
          if (r == 1) expected += row(1);
          if (r == 4) expected += row(2) + row(4);
          if (r == 5) expected += row(5);
          if (r == 7) expected += row(3);
        }
        EXPECT_DOUBLE_EQ(sums.at(p, r, c), expected) << "part " << p << " row " << r;
      }
    }
  }
}

TEST(Window, RefusesWhatDoesNotFit) {
  const Communicator comm(MPI_COMM_WORLD);
  Offer offer(comm);
  Block into(parts, 2);
  EXPECT_THROW(offer.window.write(1, offer.block.memory.data(), offer.block.memory.bytes()), core::Error);
  WindowRead read(offer.window);
  EXPECT_THROW(read.start(0, 0, {{0, 1, 3}}, into.rows({0, 2})), core::Error) << "three rows into two";
  WindowAdd add(offer.window);
  EXPECT_THROW(add.start(0, 0, {{0, 1, 3}}, into.rows({0, 2}), core::Precision::float64), core::Error)
      << "two rows added to three";
  EXPECT_THROW(offer.window.read(1, into.memory.data(), offer.block.memory.bytes()), core::Error);
  offer.window.close();
}

TEST(Window, IsCountedWhileItLives) {
  const Communicator comm(MPI_COMM_WORLD);
  const Index before = core::memory_ledger().current();
  {
    Window window(comm, "test window", 1000 * comm.rank());
    EXPECT_EQ(core::memory_ledger().current(), before + 1000 * comm.rank());
    window.publish();
    window.close();
  }
  EXPECT_EQ(core::memory_ledger().current(), before);
}

TEST(Runs, CarryMoreThanTwoGigabytes) {
  // 2 parts of 2^22 rows of 4 KiB, every third row of the part: 32 GiB. The type only describes these bytes; the test
  // moves none.
  const Index rows = Index(1) << 22, bytes = 4096;
  const Datatype type = Datatype::runs({{5, 3, rows}}, 2, 3 * rows + 5, bytes);
  EXPECT_EQ(type.bytes(), 2 * rows * bytes);
  MPI_Count first = 0, extent = 0;
  MPI_Type_get_true_extent_x(type.handle(), &first, &extent);
  EXPECT_EQ(first, 5 * bytes);
  EXPECT_EQ(extent, ((3 * rows + 5) + 3 * (rows - 1) + 1) * bytes);
}

}  // namespace
}  // namespace annulus::comm
