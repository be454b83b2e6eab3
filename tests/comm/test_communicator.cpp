// The communicator's small collectives, agreement on failures, and a known defect of an MPI library.
#include <gtest/gtest.h>

#include <algorithm>

#include "annulus/comm/communicator.hpp"
#include "annulus/comm/window.hpp"

namespace {
int communicators_freed = 0;
}
extern "C" int MPI_Comm_free(MPI_Comm* comm) {
  ++communicators_freed;
  return PMPI_Comm_free(comm);
}

namespace annulus::comm {
namespace {

TEST(Communicator, ReducesAndGathersInRankOrder) {
  const Communicator comm(MPI_COMM_WORLD);
  const Index p = comm.size();
  const Index big = Index(1) << 40;
  EXPECT_EQ(comm.sum(big + comm.rank()), p * big + p * (p - 1) / 2);
  EXPECT_EQ(comm.max(Index(-comm.rank())), 0);
  EXPECT_DOUBLE_EQ(comm.max(0.5 * comm.rank()), 0.5 * double(p - 1));
  const auto ranks = comm.gather_all(Index(comm.rank() * 10));
  const auto halves = comm.gather_all(comm.rank() * 0.5);
  const auto words = comm.gather_all(std::string(std::size_t(comm.rank()), 'x'));
  ASSERT_EQ(ranks.size(), std::size_t(p));
  ASSERT_EQ(words.size(), std::size_t(p));
  for (Index r = 0; r < p; ++r) {
    EXPECT_EQ(ranks[std::size_t(r)], r * 10);
    EXPECT_EQ(halves[std::size_t(r)], double(r) * 0.5);
    EXPECT_EQ(words[std::size_t(r)].size(), std::size_t(r));
  }
  const auto pairs = comm.gather_to_root({double(comm.rank()), -1.0});
  EXPECT_EQ(pairs.size(), comm.is_root() ? std::size_t(2 * p) : 0u);
  if (comm.is_root()) {
    EXPECT_EQ(pairs[std::size_t(2 * (p - 1))], double(p - 1));
  }
  std::vector<double> sums((std::size_t(1) << 24) + 3, comm.rank() + 0.5);  // more than one call adds up
  comm.add_up(sums);
  EXPECT_EQ(std::count(sums.begin(), sums.end(), 0.5 * double(p * p)), std::ptrdiff_t(sums.size()));
  EXPECT_EQ(comm.broadcast(comm.is_root() ? "from the root" : "mine"), "from the root");
}

TEST(Communicator, IsADuplicate) {
  const Communicator comm(MPI_COMM_WORLD);
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(comm.handle(), MPI_COMM_WORLD, &result);
  EXPECT_EQ(result, MPI_CONGRUENT) << "our messages must not meet those of the caller";
}

TEST(Communicator, SplitsByColourAndKeepsTheOrder) {
  const Communicator comm(MPI_COMM_WORLD);
  const Communicator half = comm.split(comm.rank() % 2);  // even ranks, odd ranks
  EXPECT_EQ(half.size(), (comm.size() + 1 - comm.rank() % 2) / 2);
  EXPECT_EQ(half.rank(), comm.rank() / 2);
  EXPECT_EQ(half.sum(1), half.size());
  int value = 0;
  EXPECT_NE(MPI_Send(&value, 1, MPI_INT, half.size(), 0, half.handle()), MPI_SUCCESS) << "errors are returned";
}

TEST(Communicator, IsNotFreedWhereAnErrorUnwinds) {
  const Communicator comm(MPI_COMM_WORLD);
  const int before = communicators_freed;
  // MPI_Comm_free could wait for ever for ranks that never call this function, and the error would not get out.
  EXPECT_THROW(
      {
        const Communicator part = comm.split(comm.rank() % 2);
        throw std::runtime_error("in the middle");
      },
      std::runtime_error);
  EXPECT_EQ(communicators_freed, before);
  // A communicator that is made and used while an error unwinds is freed as usual.
  struct AtTheEnd {
    const Communicator& comm;
    ~AtTheEnd() { comm.split(0).barrier(); }
  };
  EXPECT_THROW(
      {
        const AtTheEnd end{comm};
        throw std::runtime_error("in the middle");
      },
      std::runtime_error);
  EXPECT_EQ(communicators_freed, before + 1);
}

TEST(Communicator, FindsTheRanksOfItsNode) {
  const Communicator comm(MPI_COMM_WORLD);  // tests run on one machine
  EXPECT_EQ(comm.ranks_of_node(), comm.size());
  EXPECT_EQ(comm.split(comm.rank()).ranks_of_node(), 1);
}

TEST(Communicator, ReportsMpiErrorsInsteadOfAborting) {
  const Communicator comm(MPI_COMM_WORLD);
  int value = 0;
  const auto send_to_nobody = [&] {
    check_mpi(MPI_Send(&value, 1, MPI_INT, comm.size(), 0, comm.handle()), "MPI_Send");
  };
  EXPECT_THROW(send_to_nobody(), core::Error);
}

TEST(Agree, AllWellIsSilent) {
  const Communicator comm(MPI_COMM_WORLD);
  int calls = 0;
  agree(comm, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Agree, OneBadRankFailsAllWithItsMessage) {
  const Communicator comm(MPI_COMM_WORLD);
  const int bad = comm.size() - 1;
  try {
    agree(comm, [&] {
      if (comm.rank() == bad) core::fail(core::ErrorKind::usage, "the last rank is unwell");
    });
    ADD_FAILURE() << "no rank threw";
  } catch (const AgreedError& error) {
    const std::string who = comm.size() > 1 ? "rank " + std::to_string(bad) + ": " : "";
    EXPECT_EQ(error.what(), who + "the last rank is unwell");
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
  }
}

TEST(Agree, TheSameFailureEverywhereIsToldWithoutARank) {
  const Communicator comm(MPI_COMM_WORLD);
  try {
    agree(comm, [&] { throw std::runtime_error("all of us"); });
    ADD_FAILURE() << "no rank threw";
  } catch (const AgreedError& error) {
    EXPECT_STREQ(error.what(), "all of us");
    EXPECT_EQ(error.kind(), core::ErrorKind::failure);
  }
}

TEST(Agree, NestedAgreementsKeepTheMessage) {
  const Communicator comm(MPI_COMM_WORLD);
  try {
    agree(comm, [&] {
      agree(comm, [&] {
        if (comm.is_root()) core::fail(core::ErrorKind::failure, "inner");
      });
    });
    ADD_FAILURE() << "no rank threw";
  } catch (const AgreedError& error) {
    EXPECT_EQ(std::string(error.what()), comm.size() > 1 ? "rank 0: inner" : "inner");
  }
}

// This test is not in test_window.cpp, whose tests are left out where windows do not work.
TEST(WindowDefect, IsKnownOfMpich40Only) {
  for (const char* sound :
       {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
        "Open MPI v4.0.3, package: Debian OpenMPI, ident: 4.0.3, repo rev: v4.0.3, Mar 03, 2020",
        "MPICH Version:\t3.4.3\nMPICH Release date:\tThu Dec 16 11:20:57 CST 2021\nMPICH Device:\tch4:ofi\n",
        "MPICH Version:\t4.1.2\nMPICH ABI:\t15:1:3\nMPICH Device:\tch4:ucx\n", "MPICH Version:\t14.0\n",
        "Intel(R) MPI Library 2021.10 for Linux* OS\n", ""}) {
    EXPECT_EQ(window_defect(sound), "") << sound;
  }
  for (const char* defective : {"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n"
                                "MPICH Device:\tch4:ucx\n",
                                "MPICH Version:\t4.0\n"}) {
    EXPECT_NE(window_defect(defective).find("MPICH 4.0"), std::string::npos) << defective;
  }
  EXPECT_TRUE(window_defect().empty() || window_defect().find("MPICH 4.0") == 0);
}

}  // namespace
}  // namespace annulus::comm
