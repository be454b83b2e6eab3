// Rows of tensors out of files, read ahead by a thread of its own; or made from a seed.
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
#include "annulus/store/hdf5/hdf5_rows.hpp"
#include "annulus/store/raw_file.hpp"

namespace annulus::store {

struct SeededTensor {
  runfile::GenerateSettings settings;
  core::TensorId id = core::TensorId::q;
};

/// Where a tensor's rows come from.
using RowOrigin = std::variant<RawTensor, Hdf5Tensor, SeededTensor>;

/// The place of a dataset of an input file. On this rank alone. Throws Error(failure).
RowOrigin origin_of(const InspectedFile& file, const std::string& dataset);

/// From now on only numbers that are not wanted are errors there.
void allow(RowOrigin& origin, Wanted wanted);

/// Reads pieces now, by the thread that calls it, which has to be the one that calls MPI and HDF5. Throws
/// Error(failure).
void read_rows(const RowOrigin& from, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Where tensors lie. Those that lie in a file as they are go through the thread; HDF5, which must be called by one
/// thread only, and what is made from a seed do their work in start().
class FileRows final : public core::RowSource {
 public:
  FileRows();
  /// Reads that were begun are ended, not finished.
  ~FileRows() override;

  /// Names the place of a tensor. Not while its rows are read.
  void put(core::StoredTensor tensor, RowOrigin origin);
  /// Closes all files. Not while rows are read.
  void forget() { origins_.clear(); }

  Ticket start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces) override;
  void wait(Ticket ticket) override;
  core::RowTraffic traffic() const override;

 private:
  struct Read {  // of some MiB: wait() tells the watchdog of each that is done
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
  std::exception_ptr error_;  // the first; later reads are not done
  core::RowTraffic traffic_;
  bool stop_ = false;
  std::thread thread_;  // none where none is to be had: start() reads then
};

}  // namespace annulus::store
