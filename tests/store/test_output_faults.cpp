// Writes that fail: every rank gets the error, the ranks can still communicate, and no file is left.
#include <gtest/gtest.h>

#include "store/hdf5_files.hpp"
#include "store/output_case.hpp"
#include "support/file_size_limit.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::Shape;
using test::common_error;
using test::FileSizeLimit;
using test::SharedFolder;

/// Limits the file size on all ranks or on the last rank. Expects that every rank gets the error of the write, and that
/// no file is left.
void expect_failed_write(bool everywhere, rlim_t bytes) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  const Shape shape{1, 8192, 2, 2, 128};  // 8 MiB, so that every rank writes
  const Index block = 2048;
  const auto rows = dealt(shape.sequence, block, comm);
  Index count = 0;
  for (const Interval& interval : rows) count += interval.size();
  const std::vector<float> data(std::size_t(count * 256), 1.5f);
  {
    OutputFile file(output_plan({path, false}, {tensor_spec("out", DType::float32, shape)}), comm);
    std::string message;
    {
      // On up to four ranks, the last rank writes the end of the file, which lies beyond the limit.
      const FileSizeLimit limit(everywhere || comm.rank() == comm.size() - 1 ? bytes : RLIM_INFINITY);
      message = common_error(comm, [&] {
        file.write({{"out", data.data()}}, rows, owners(shape.sequence, block, comm));
      });
    }
    EXPECT_NE(message.find(path + ".part: dataset out: writing "), std::string::npos) << message;
    file.write({{"out", data.data()}}, rows, owners(shape.sequence, block, comm));  // all ranks can still communicate
  }
  comm.barrier();
  EXPECT_TRUE(names_in(folder / "").empty());
  comm.barrier();
}

// If the limit lies inside a rank's rows, the system writes fewer bytes than asked for; the next write then fails.
TEST(OutputFaults, AFailedWriteIsEveryonesError) {
  for (const rlim_t bytes : {4096, 1 << 20, (7 << 20) + 10001}) expect_failed_write(true, bytes);
}
TEST(OutputFaults, AFailedWriteOfOneRankIsEveryonesError) {
  for (const rlim_t bytes : {4096, (6 << 20) + 10001}) expect_failed_write(false, bytes);
}

}  // namespace
}  // namespace annulus::store
