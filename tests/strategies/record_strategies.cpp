// Prints what every strategy does on every rank: messages, metrics, predictions and bits of the results.
// This is no test: to compare two versions of the program, compare their output.
//
//   mpirun -n 3 strategies_record > before.txt
//
// It prints one line for each case, strategy, pass and rank. Times are left out, and so are bits that depend on the
// order in which messages arrive.
#include <mpi.h>

#include <algorithm>
#include <cstdio>

#include "annulus/comm/runtime.hpp"
#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace {

/// This rank's messages since the list was last cleared, as text. MPI calls are intercepted by the profiling
/// interface.
std::vector<std::string> messages;

void note(const char* call, int peer, MPI_Count bytes) {
  messages.push_back(fmt::format("{} {} {}", call, peer, std::int64_t(bytes)));
}

MPI_Count bytes_of(int count, MPI_Datatype type) {
  MPI_Count size = 0;
  MPI_Type_size_x(type, &size);
  return size * count;
}

/// 64-bit FNV-1a.
std::uint64_t hash(const void* data, std::size_t bytes, std::uint64_t start = 1469598103934665603u) {
  for (std::size_t i = 0; i < bytes; ++i) {
    start = (start ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  }
  return start;
}

std::string hash_of_messages() {
  std::sort(messages.begin(), messages.end());
  std::uint64_t all = hash(nullptr, 0);
  for (const std::string& message : messages) all = hash(message.data(), message.size() + 1, all);
  const std::string text = fmt::format("{} messages {:016x}", messages.size(), all);
  messages.clear();
  return text;
}

}  // namespace

extern "C" {
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  note("send", to, bytes_of(count, type));
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  note("receive", from, bytes_of(count, type));
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Rget(void* data, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
             MPI_Datatype target_type, MPI_Win window, MPI_Request* request) {
  note("get", target, bytes_of(count, type));
  return PMPI_Rget(data, count, type, target, at, target_count, target_type, window, request);
}
int MPI_Raccumulate(const void* data, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
                    MPI_Datatype target_type, MPI_Op operation, MPI_Win window, MPI_Request* request) {
  note("accumulate", target, bytes_of(count, type));
  return PMPI_Raccumulate(data, count, type, target, at, target_count, target_type, operation, window, request);
}
int MPI_Iallgatherv(const void* data, int count, MPI_Datatype type, void* all, const int counts[], const int begins[],
                    MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request) {
  note("allgather", 0, bytes_of(count, type));
  return PMPI_Iallgatherv(data, count, type, all, counts, begins, all_type, comm, request);
}
}

namespace annulus::strategies {
namespace {

std::string describe(const core::RankMetrics& metrics, const Prediction& predicted) {
  std::string text = fmt::format("predicted {} {} {} {}, hops", predicted.memory_bytes, predicted.bytes_sent,
                                 predicted.bytes_received, core::Index(predicted.kept));
  for (const core::HopMetrics& hop : metrics.hops) {
    text += fmt::format(" {}/{}/{}/{}", core::Index(hop.kept), hop.bytes_sent, hop.bytes_received, hop.rows_received);
  }
  return text;
}

std::string bits(const core::Buffer& buffer, Index bytes) {
  std::vector<std::byte> host(static_cast<std::size_t>(bytes));
  core::copy_to_host(host.data(), buffer.data(), bytes);
  return fmt::format("{:016x}", hash(host.data(), host.size()));
}

/// Prints every rank's line on rank 0.
void print(const std::string& line, const comm::Communicator& comm) {
  const std::vector<std::string> lines = comm.gather_all(line);
  for (std::size_t p = 0; p < lines.size() && comm.is_root(); ++p) fmt::print("{} {}\n", p, lines[p]);
}

void record(const Strategy& strategy, const Case& one, const comm::Communicator& comm) {
  const Problem& problem = one.problem;
  const core::Shape& s = problem.shape;
  const pattern::Partition partition = strategy.partition(problem, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  const Index all = s.batch * rows.count();
  const AttentionCase numbers = one.numbers();
  if (comm.is_root()) fmt::print("# {}, {}\n", strategy.name(), one.name);

  Tensors tensors = take_tensors(numbers, problem, rows);
  const Prediction forward = strategy.predict(problem, partition, comm.rank());
  messages.clear();
  const core::RankMetrics went = strategy.forward(problem, partition, comm, tensors, {});
  std::string line = "forward " + hash_of_messages() + ", " + describe(went, forward);
  if (strategy.name() != "allgather_overlap") {
    line += " out " + bits(tensors.out, all * problem.query_row_bytes());
    line += " lse " + bits(tensors.lse, tensors.lse.bytes());
  }
  print(line, comm);

  const auto dout =
      test::to_storage(test::take_rows(numbers.dout(), s.batch, s.sequence, rows.intervals()), problem.type);
  tensors.dout = core::Buffer("dout", Index(dout.size()));
  core::copy_to_device(tensors.dout.data(), dout.data(), tensors.dout.bytes());
  const Prediction backward = strategy.predict_backward(problem, partition, comm.rank());
  messages.clear();
  const core::RankMetrics came = strategy.backward(problem, partition, comm, tensors, {});
  line = "backward " + hash_of_messages() + ", " + describe(came, backward);
  if (strategy.name() != "allgather_overlap" && strategy.name() != "onesided") {
    line += " dq " + bits(tensors.dq, all * problem.query_row_bytes());
    line += " dkv " + bits(tensors.dkv, problem.kv_block_bytes(rows.count()));
  }
  print(line, comm);
}

/// Records the case with gradients, and also with reproducible bits if the strategy can make these.
void record_both(const Strategy& strategy, Case one, const comm::Communicator& comm) {
  one.problem.gradients = true;
  record(strategy, one, comm);
  one.problem.reproducible = true;
  if (!why_not_reproducible(strategy, one.problem, comm.size()).empty()) return;
  one.name += ", reproducible";
  record(strategy, one, comm);
}

}  // namespace
}  // namespace annulus::strategies

int main(int argc, char** argv) {
  using namespace annulus;
  using namespace annulus::strategies;
  const comm::Runtime runtime(argc, argv);
  const auto check = [](const Strategy& strategy, const Case& one, const comm::Communicator& comm) {
    record_both(strategy, one, comm);
  };
  for_every_strategy(semantics_cases(), 4, check);
  for_every_strategy(awkward_cases(), 1, check);
  for_every_strategy(storage_cases(), 2, check);
  for_every_strategy(device_cases(), 1, check);
  for_every_strategy(random_cases(), 3, check);
  return 0;
}
