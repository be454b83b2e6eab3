// Communicators that cannot be duplicated, and those on which a pass was interrupted, on 1 to 4 ranks.
#include <mpi.h>

#include <stdexcept>

#include "annulus/annulus.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/memory.hpp"
#include "library_case.hpp"

namespace annulus::test {
namespace {

/// Dense attention in a ring on all ranks. The numbers of k are multiplied by `factor`.
class RingCase {
 public:
  RingCase(Index rows, double factor, int ranks, int rank)
      : test_{"ring", {.sequence = rows, .heads = 4, .head_dim = 16}, {}, {.strategy = "ring", .gradients = true}},
        plan_(test_.shape, test_.pattern, ranks, test_.options),
        whole_(test_, plan_, rank),
        k_(whole_.mine(whole_.numbers().k())) {
    for (double& number : k_) number *= factor;
  }
  /// Returns the results of both passes.
  std::vector<double> results(const Communicator& comm, const Progress& forwards = {},
                              const Progress& backwards = {}) const {
    const DType type = DType::float32;
    const TestTensor q(whole_.mine(whole_.numbers().q()), type, whole_.queries()), k(k_, type, whole_.keys());
    const TestTensor v(whole_.mine(whole_.numbers().v()), type, whole_.values()), out(type, whole_.outs());
    const TestTensor dout(whole_.mine(whole_.numbers().dout()), type, whole_.outs()), lse(type, whole_.heads());
    const TestTensor dq(type, whole_.queries()), dk(type, whole_.keys()), dv(type, whole_.values());
    const Normalizers kept =
        forward(comm, plan_, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()}, forwards);
    BackwardTensors tensors{q.tensor(), k.tensor(), v.tensor(), out.tensor(), dout.tensor()};
    tensors.dq = dq.tensor();
    tensors.dk = dk.tensor();
    tensors.dv = dv.tensor();
    backward(comm, plan_, kept, tensors, backwards);
    std::vector<double> all = out.values();
    for (const auto& more : {lse.values(), dq.values(), dk.values(), dv.values()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

 private:
  LibraryCase test_;
  Plan plan_;
  Whole whole_;
  std::vector<double> k_;
};

/// Messages of the interrupted pass, which has other numbers, must not reach a later pass. Messages of 8 rows are sent
/// at once, those of 600 rows once they are received.
TEST(LibraryCommunicator, IsRefusedAfterAnInterruptedPass) {
  const Communicator first(MPI_COMM_WORLD);
  const int ranks = first.size(), rank = first.rank();
  for (const Index rows : {8, 600}) {
    const RingCase wanted(rows, 1, ranks, rank), other(rows, -1.7, ranks, rank);
    const std::vector<double> expected = wanted.results(first);
    for (const bool is_backward : {false, true}) {
      for (const int at : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} rows, {}, call {}", rows, is_backward ? "backward" : "forward", at));
        const Communicator comm(MPI_COMM_WORLD);
        const Index bytes_before = core::memory_ledger().current();
        int calls = 0;
        const Progress stop = [&](double, const std::string&) {
          if (calls++ == at) throw std::runtime_error("stop");
        };
        EXPECT_THROW(other.results(comm, is_backward ? Progress() : stop, is_backward ? stop : Progress()),
                     std::runtime_error);
        EXPECT_EQ(core::memory_ledger().current() > bytes_before, ranks > 1) << "memory that MPI may still read";
        EXPECT_EQ(comm.is_interrupted(), ranks > 1);
        EXPECT_EQ(usage_error_of([&] { EXPECT_EQ(wanted.results(comm), expected); }),
                  ranks == 1 ? ""
                             : "attention: an earlier pass on this communicator was interrupted, and its messages may "
                               "still arrive; expected a new Communicator");
        const Communicator renewed(MPI_COMM_WORLD);
        EXPECT_EQ(wanted.results(renewed), expected);
      }
    }
  }
}

/// MPI ends the job if a program duplicates one of these.
TEST(LibraryCommunicator, RefusesWhatMpiCannotDuplicate) {
  EXPECT_EQ(usage_error_of([] { const Communicator comm(MPI_COMM_NULL); }),
            "Communicator: the MPI_Comm is MPI_COMM_NULL; expected an intracommunicator");
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) return;
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &between);
  EXPECT_EQ(usage_error_of([&] { const Communicator comm(between); }),
            "Communicator: the MPI_Comm is an intercommunicator; expected an intracommunicator");
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace annulus::test
