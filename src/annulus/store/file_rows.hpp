// Reads rows of tensors from files, or generates them. A separate thread can read rows from files before the kernel
// needs them.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <variant>

#include "annulus/core/random.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/store/raw_file.hpp"

namespace annulus::store {

struct SeededTensor {
  runfile::GenerateSettings settings;
  core::TensorId id = core::TensorId::q;
};

/// The id with which the random numbers of q, k, v, dout or dlse are generated.
core::TensorId seed_of(core::StoredTensor tensor);
/// The name of the dataset of q, k, v, dout or dlse in the input file. For dlse, input.dlse must be set.
const std::string& dataset_of(const runfile::InputSettings& input, core::StoredTensor tensor);

/// A dataset that only HDF5 can read: it is chunked, compressed, compact or virtual, or its numbers are in other files
/// or in another byte order.
struct Hdf5Tensor {
  InspectedFile file;
  std::string dataset;
  RowLayout layout;  ///< layout.offset is not used
};

/// Opens the file on this rank alone and reads pieces of a dataset, in the type that the file has. No call waits for
/// another rank, so ranks may read different chunks, or none. Throws Error(failure) if the file or the dataset has
/// changed, if HDF5 fails, or if `tensor.layout` does not allow a number.
void read_rows(const Hdf5Tensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Where a tensor's rows come from: a file, or a seed.
using RowOrigin = std::variant<RawTensor, Hdf5Tensor, SeededTensor>;

/// Returns the origin of the rows of an input file's dataset. Not collective. Throws Error(failure).
RowOrigin origin_of(const InspectedFile& file, const std::string& dataset);

/// Changes `origin`: reading from it then fails only for numbers that `wanted` does not allow.
void allow(RowOrigin& origin, Wanted wanted);

/// Reads pieces, and returns when they are in memory. Call it on the thread that calls MPI and HDF5. Throws
/// Error(failure).
void read_rows(const RowOrigin& from, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Knows where tensors are, and reads their rows. A thread that this object starts reads rows of RawTensors after
/// start() has returned. start() itself generates rows of SeededTensors, and also reads rows of Hdf5Tensors, because
/// only one thread may call HDF5.
class FileRows final : public core::RowSource {
 public:
  FileRows();
  /// Waits until the thread has finished its present Read (see below). Drops the reads that have not begun.
  ~FileRows() override;

  /// Sets where a tensor's rows are. Do not call it while these rows are read.
  void put(core::StoredTensor tensor, RowOrigin origin);
  /// Forgets all tensors, which closes their files. Do not call it while rows are read.
  void forget() { origins_.clear(); }

  Ticket start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces) override;
  void wait(Ticket ticket) override;
  core::RowTraffic traffic() const override;

 private:
  struct Read {  // at most 64 MiB, or one row; after each Read, wait() reports progress to the watchdog
    RawTensor from;
    std::vector<core::RowPiece> pieces;
  };
  void work();
  void note_done(const core::RowTraffic& moved, std::exception_ptr error);

  std::map<core::StoredTensor, RowOrigin> origins_;
  Ticket begun_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Read> queue_;
  Ticket done_ = 0;
  std::exception_ptr error_;  // the first error; later reads are skipped
  core::RowTraffic traffic_;
  bool stop_ = false;
  std::thread thread_;  // empty if the system allows no more threads; start() then reads all rows
};

}  // namespace annulus::store
