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
#include "annulus/io/raw_file.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::io {

/// A dataset that only HDF5 can read: chunked, compressed, in another byte order.
struct Hdf5Tensor {
  SeenFile file;
  std::string dataset;
  RowLayout layout;  ///< its offset has no meaning
};
struct MadeTensor {
  GenerateSettings settings;
  core::TensorId id = core::TensorId::q;
};

/// Where tensors lie. Those that lie in a file as they are go through the thread; HDF5, which must be called by one
/// thread only, and what is made from a seed do their work in start().
class FileRows final : public core::RowSource {
 public:
  using Place = std::variant<RawTensor, Hdf5Tensor, MadeTensor>;

  FileRows();
  /// Reads that were begun are ended, not finished.
  ~FileRows() override;

  /// Names the place of a tensor. Not while its rows are read.
  void put(core::StoredTensor tensor, Place place);

  Ticket start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces) override;
  void wait(Ticket ticket) override;
  core::RowTraffic traffic() const override;

 private:
  struct Read {
    RawTensor from;
    std::vector<core::RowPiece> pieces;
  };
  void work();
  void note_done(std::exception_ptr error);

  std::map<core::StoredTensor, Place> places_;
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

/// The place of a dataset of an input file. On this rank alone. Throws Error(failure).
FileRows::Place place_of(const SeenFile& file, const std::string& dataset);

}  // namespace annulus::io
