#include "annulus/comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <exception>

#include "annulus/comm/requests.hpp"

namespace annulus::comm {

std::string mpi_error(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), std::size_t(length)};
}

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) core::fail(core::ErrorKind::failure, "{}: {}", what, mpi_error(code));
}

namespace {

/// Throws Error(usage) unless `parent` can be duplicated. MPI itself would end the job instead of returning an error.
void check_parent(MPI_Comm parent) {
  const auto refuse = [](const char* found, const char* expected) {
    core::fail(core::ErrorKind::usage, "Communicator: {}; expected {}", found, expected);
  };
  int is_running = 0, is_over = 0, has_two_groups = 0;
  check_mpi(blocking_quietly("MPI_Initialized", MPI_Initialized, &is_running), "MPI_Initialized");
  check_mpi(blocking_quietly("MPI_Finalized", MPI_Finalized, &is_over), "MPI_Finalized");
  if (is_running == 0) refuse("MPI has not been started", "MPI_Init or MPI_Init_thread before it");
  if (is_over != 0) refuse("MPI has ended", "that MPI_Finalize comes after it");
  if (parent == MPI_COMM_NULL) refuse("the MPI_Comm is MPI_COMM_NULL", "an intracommunicator");
  check_mpi(blocking_quietly("MPI_Comm_test_inter", MPI_Comm_test_inter, parent, &has_two_groups),
            "MPI_Comm_test_inter");
  if (has_two_groups != 0) refuse("the MPI_Comm is an intercommunicator", "an intracommunicator");
}

MPI_Comm duplicate(MPI_Comm parent) {
  check_parent(parent);
  MPI_Comm comm = MPI_COMM_NULL;
  call_mpi("MPI_Comm_dup", MPI_Comm_dup, parent, &comm);
  return comm;
}

/// Returns the sum or the maximum of all ranks' values.
template <class Number>
Number reduce(Number value, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return value;
  run_collective("MPI_Iallreduce", [&](MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, &value, 1, type, operation, comm, request);
  });
  return value;
}

template <class Number>
std::vector<Number> gather_numbers(Number value, MPI_Datatype type, int ranks, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return {value};
  std::vector<Number> all(static_cast<std::size_t>(ranks));
  run_collective("MPI_Iallgather", [&](MPI_Request* request) {
    return MPI_Iallgather(&value, 1, type, all.data(), 1, type, comm, request);
  });
  return all;
}

void broadcast_bytes(void* bytes, int count, MPI_Datatype type, MPI_Comm comm) {
  run_collective("MPI_Ibcast", [&](MPI_Request* request) { return MPI_Ibcast(bytes, count, type, 0, comm, request); });
}

template <class Number>
void add_up_numbers(std::vector<Number>& values, MPI_Datatype type, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  // At most this many numbers per call, because counts are ints, and MPI may make a copy of the numbers.
  constexpr std::size_t most = std::size_t(1) << 24;
  for (std::size_t begin = 0; begin < values.size(); begin += most) {
    const int count = int(std::min(most, values.size() - begin));
    run_collective("MPI_Iallreduce", [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, values.data() + begin, count, type, MPI_SUM, comm, request);
    });
  }
}

}  // namespace

Communicator::Communicator(MPI_Comm parent) : Communicator(Owned{duplicate(parent)}) {}

Communicator::Communicator(Owned owned) : comm_(owned.handle), exceptions_(std::uncaught_exceptions()) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Communicator::~Communicator() {
  if (is_alone() || is_abandoned_) return;
  int ended = 0;
  if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0) return;  // nothing is left to free
  if (std::uncaught_exceptions() <= exceptions_) blocking_quietly("MPI_Comm_free", MPI_Comm_free, &comm_);
}

Communicator Communicator::split(int colour) const {
  if (is_alone()) return {};
  MPI_Comm part = MPI_COMM_NULL;
  barrier();  // here, unlike inside MPI_Comm_split, the watchdog sees which rank is missing
  call_mpi("MPI_Comm_split", MPI_Comm_split, comm_, colour, rank_, &part);
  return Communicator(Owned{part});
}

Communicator Communicator::node() const {
  if (is_alone()) return {};
  MPI_Comm node = MPI_COMM_NULL;
  barrier();
  call_mpi("MPI_Comm_split_type", MPI_Comm_split_type, comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  return Communicator(Owned{node});
}

int Communicator::ranks_of_node() const { return node().size(); }
Index Communicator::sum_of_node(Index value) const { return node().sum(value); }

// Each collective is started by a non-blocking call. The rank then polls, so that the watchdog notices missing ranks.

void Communicator::barrier() const {
  if (is_alone()) return;
  run_collective("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
}

Index Communicator::sum(Index value) const { return reduce(value, MPI_INT64_T, MPI_SUM, comm_); }
Index Communicator::max(Index value) const { return reduce(value, MPI_INT64_T, MPI_MAX, comm_); }
double Communicator::max(double value) const { return reduce(value, MPI_DOUBLE, MPI_MAX, comm_); }

std::vector<Index> Communicator::gather_all(Index value) const {
  return gather_numbers(value, MPI_INT64_T, size_, comm_);
}
std::vector<double> Communicator::gather_all(double value) const {
  return gather_numbers(value, MPI_DOUBLE, size_, comm_);
}

std::vector<std::string> Communicator::gather_all(const std::string& text) const {
  if (is_alone()) return {text};
  const std::vector<Index> lengths = gather_all(Index(text.size()));
  std::vector<int> counts, begins;
  Index total = 0;
  for (const Index length : lengths) {
    counts.push_back(int(length));
    begins.push_back(int(total));
    total += length;
  }
  core::require(total <= INT_MAX, [] { return "the ranks' texts together have 2 GiB or more"; });
  std::string all(std::size_t(total), '\0');
  run_collective("MPI_Iallgatherv", [&](MPI_Request* request) {
    return MPI_Iallgatherv(text.data(), int(text.size()), MPI_CHAR, all.data(), counts.data(), begins.data(), MPI_CHAR,
                           comm_, request);
  });
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    texts.push_back(all.substr(std::size_t(begins[r]), std::size_t(counts[r])));
  }
  return texts;
}

std::vector<double> Communicator::gather_to_root(const std::vector<double>& values) const {
  if (is_alone()) return values;
  std::vector<double> all(is_root() ? values.size() * std::size_t(size_) : 0);
  run_collective("MPI_Igather", [&](MPI_Request* request) {
    return MPI_Igather(values.data(), int(values.size()), MPI_DOUBLE, all.data(), int(values.size()), MPI_DOUBLE, 0,
                       comm_, request);
  });
  return all;
}

void Communicator::add_up(std::vector<double>& values) const { add_up_numbers(values, MPI_DOUBLE, comm_); }
void Communicator::add_up(std::vector<Index>& values) const { add_up_numbers(values, MPI_INT64_T, comm_); }

std::string Communicator::broadcast(const std::string& from_root) const {
  if (is_alone()) return from_root;
  Index length = Index(from_root.size());
  broadcast_bytes(&length, 1, MPI_INT64_T, comm_);
  std::string text = from_root;
  text.resize(std::size_t(length));
  constexpr std::int64_t most = std::int64_t(1) << 30;  // a count is an int
  for (std::int64_t begin = 0; begin < length; begin += most)
    broadcast_bytes(text.data() + begin, int(std::min(most, length - begin)), MPI_CHAR, comm_);
  return text;
}

void agree_on_failure(const Communicator& comm, int kind, const std::string& message) {
  const Index failing = kind == 0 ? comm.size() : comm.rank();
  const Index first = -comm.max(-failing);  // lowest failing rank; size() if none fails
  if (first == comm.size()) return;
  const Index failures = comm.sum(kind == 0 ? 0 : 1);
  const std::vector<Index> kinds = comm.gather_all(Index(kind));
  std::string text = comm.gather_all(comm.rank() == first ? message : std::string())[std::size_t(first)];
  if (failures < comm.size()) text = "rank " + std::to_string(first) + ": " + text;
  throw AgreedError(core::ErrorKind(kinds[std::size_t(first)]), text);
}

}  // namespace annulus::comm
