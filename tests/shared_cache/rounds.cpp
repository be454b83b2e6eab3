// In each round all ranks write one file, each through its own mount (run.sh): with plain pwrite, and as the program
// does it. Prints how many numbers each way lost; ends with 0 if the first way lost some and the second none.
//
//   rounds FOLDER BACKING ROUNDS: FOLDER is this rank's mount, BACKING the folder behind all of them
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "annulus/store/input_file.hpp"
#include "annulus/store/output_file.hpp"
#include "annulus/store/row_reading.hpp"

namespace annulus::store {
namespace {

/// Rows of 2,080 bytes: borders between ranks lie inside pages. 16.6 MB, so that all ranks write.
const core::Shape shape{1, 7993, 4, 4, 130};
constexpr Index row_numbers = 4 * 130;

float number_at(Index i, Index round) { return float(1 + (i + 31 * round) % 8191); }

std::vector<float> numbers_of(core::Interval rows, Index round) {
  std::vector<float> numbers;
  for (Index i = rows.begin * row_numbers; i < rows.end * row_numbers; ++i) numbers.push_back(number_at(i, round));
  return numbers;
}

Index wrong_numbers(const std::vector<float>& found, Index round) {
  Index wrong = Index(found.size()) == shape.sequence * row_numbers ? 0 : shape.sequence * row_numbers;
  for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != number_at(Index(i), round);
  return wrong;
}

/// Every rank writes its own rows, flushes and closes.
Index lost_by_pwrite(const std::string& folder, const std::string& backing, Index round, core::Interval rows,
                     const comm::Communicator& comm) {
  const std::string name = "/naive";
  const std::vector<float> mine = numbers_of(rows, round);
  if (comm.is_root()) {
    const int made = open((folder + name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666);
    (void)!ftruncate(made, off_t(shape.sequence * row_numbers * 4));
    fsync(made), close(made);
  }
  comm.barrier();
  const int file = open((folder + name).c_str(), O_RDWR);
  (void)!pwrite(file, mine.data(), mine.size() * 4, off_t(rows.begin * row_numbers * 4));
  comm.barrier();  // now all ranks have dirty pages
  fsync(file), close(file);
  comm.barrier();
  if (!comm.is_root()) return 0;
  std::vector<float> found(std::size_t(shape.sequence * row_numbers));
  std::ifstream(backing + name, std::ios::binary)
      .read(reinterpret_cast<char*>(found.data()), std::streamsize(found.size() * 4));
  return wrong_numbers(found, round);
}

Index lost_by_us(const std::string& folder, const std::string& backing, Index round,
                 const pattern::Partition& partition, const comm::Communicator& comm) {
  const std::vector<core::Interval>& rows = partition[std::size_t(comm.rank())].intervals();
  const std::vector<float> mine = numbers_of(rows.front(), round);
  OutputFile file(output_plan({folder + "/ours.h5", true}, {tensor_spec("out", core::DType::float32, shape),
                                                            tensor_spec("lse", core::DType::float32, shape)}),
                  comm);
  file.write({{"out", mine.data()}}, rows, RowOwners(partition));
  file.publish({});
  comm.barrier();
  Index wrong = 0;
  if (comm.is_root()) {
    const std::string path = backing + "/ours.h5";
    const InspectedFile seen{path, state_of(path), {{"out", look_at_dataset(path, "out")}}};
    std::vector<float> found(std::size_t(shape.sequence * row_numbers));
    read_rows(seen, {"out", found.data()}, {{0, shape.sequence}});
    wrong = wrong_numbers(found, round);
  }
  comm.barrier();
  return wrong;
}

int run(const std::string& folder, const std::string& backing, Index rounds) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const pattern::Partition partition = pattern::contiguous_partition(shape.sequence, comm.size());
  Index naive = 0, ours = 0;
  for (Index round = 0; round < rounds; ++round) {
    naive += lost_by_pwrite(folder, backing, round, partition[std::size_t(comm.rank())].intervals().front(), comm);
    ours += lost_by_us(folder, backing, round, partition, comm);
  }
  naive = comm.sum(naive), ours = comm.sum(ours);
  if (comm.is_root()) {
    std::printf("%d ranks, %d rounds: %lld numbers lost by pwrite as it comes, %lld by the program's way\n",
                comm.size(), int(rounds), (long long)naive, (long long)ours);
  }
  return naive > 0 && ours == 0 ? 0 : 1;
}

}  // namespace
}  // namespace annulus::store

int main(int count, char** words) {
  MPI_Init(&count, &words);
  const int status = count == 4 ? annulus::store::run(words[1], words[2], std::stoll(words[3])) : 2;
  MPI_Finalize();
  return status;
}
