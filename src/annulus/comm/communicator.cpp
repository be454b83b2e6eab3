#include "annulus/comm/communicator.hpp"

#include <array>

namespace annulus::comm {

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  core::fail(core::ErrorKind::failure, "{}: {}", what, std::string(text.data(), std::size_t(length)));
}

namespace {

MPI_Comm duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(parent, &comm), "MPI_Comm_dup");
  return comm;
}

}  // namespace

Communicator::Communicator(MPI_Comm parent) : Communicator(Owned{duplicate(parent)}) {}

Communicator::Communicator(Owned owned) : comm_(owned.handle) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Communicator::~Communicator() { MPI_Comm_free(&comm_); }

Communicator Communicator::split(int colour) const {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, colour, rank_, &part), "MPI_Comm_split");
  return Communicator(Owned{part});
}

int Communicator::ranks_of_node() const {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  return Communicator(Owned{node}).size();
}

void Communicator::barrier() const { check_mpi(MPI_Barrier(comm_), "MPI_Barrier"); }

Index Communicator::sum(Index value) const {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_SUM, comm_), "MPI_Allreduce");
  return value;
}

Index Communicator::max(Index value) const {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, comm_), "MPI_Allreduce");
  return value;
}

double Communicator::max(double value) const {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
  return value;
}

std::vector<Index> Communicator::gather_all(Index value) const {
  std::vector<Index> all(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&value, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm_), "MPI_Allgather");
  return all;
}

std::vector<double> Communicator::gather_all(double value) const {
  std::vector<double> all(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, comm_), "MPI_Allgather");
  return all;
}

std::vector<std::string> Communicator::gather_all(const std::string& text) const {
  const std::vector<Index> lengths = gather_all(Index(text.size()));
  std::vector<int> counts, begins;
  int total = 0;
  for (const Index length : lengths) {
    counts.push_back(int(length));
    begins.push_back(total);
    total += int(length);
  }
  std::string all(std::size_t(total), '\0');
  check_mpi(MPI_Allgatherv(text.data(), int(text.size()), MPI_CHAR, all.data(), counts.data(), begins.data(), MPI_CHAR,
                           comm_),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    texts.push_back(all.substr(std::size_t(begins[r]), std::size_t(counts[r])));
  }
  return texts;
}

std::vector<double> Communicator::gather_to_root(const std::vector<double>& values) const {
  std::vector<double> all(is_root() ? values.size() * std::size_t(size_) : 0);
  check_mpi(
      MPI_Gather(values.data(), int(values.size()), MPI_DOUBLE, all.data(), int(values.size()), MPI_DOUBLE, 0, comm_),
      "MPI_Gather");
  return all;
}

std::string Communicator::broadcast(const std::string& from_root) const {
  Index length = Index(from_root.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm_), "MPI_Bcast");
  std::string text = from_root;
  text.resize(std::size_t(length));
  check_mpi(MPI_Bcast(text.data(), int(length), MPI_CHAR, 0, comm_), "MPI_Bcast");
  return text;
}

void agree_on_failure(const Communicator& comm, int kind, const std::string& message) {
  const Index failing = kind == 0 ? comm.size() : comm.rank();
  const Index first = -comm.max(-failing);  // lowest failing rank, size() when all are well
  if (first == comm.size()) return;
  const Index failures = comm.sum(kind == 0 ? 0 : 1);
  const std::vector<Index> kinds = comm.gather_all(Index(kind));
  std::string text = comm.gather_all(comm.rank() == first ? message : std::string())[std::size_t(first)];
  if (failures < comm.size()) text = "rank " + std::to_string(first) + ": " + text;
  throw AgreedError(core::ErrorKind(kinds[std::size_t(first)]), text);
}

}  // namespace annulus::comm
